-- A process serves these no longer. ?1 fleet, ?2 node, ?3 stores as a JSON list.
delete from postroom_fleet_share
where fleet = ?1
  and node = ?2
  and store in (select value from json_each(?3))
