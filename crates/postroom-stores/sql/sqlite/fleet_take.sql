-- A process serves these from now on. ?1 fleet, ?2 node, ?3 stores as a JSON list.
insert into postroom_fleet_share (fleet, store, node)
select ?1, value, ?2
from json_each(?3)
where true
on conflict do nothing
