-- What a process had is free. ?1 fleet, ?2 node.
delete from postroom_fleet_share
where fleet = ?1 and node = ?2
