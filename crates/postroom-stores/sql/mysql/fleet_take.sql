-- A process serves these from now on, but for those that another one was quicker to take: the first
-- two of a fleet meet nobody whom they could wait for. Fleet, node, stores as a JSON list.
insert ignore into postroom_fleet_share (fleet, store, node)
select cast(? as binary), cast(wanted.store as binary), ?
from json_table(?, '$[*]' columns (store varchar(255) path '$')) as wanted
order by wanted.store
