-- A process serves these from now on, but for those that another one was quicker to take: the first
-- two of a fleet meet nobody whom they could wait for. $1 fleet, $2 node, $3 stores.
insert into postroom.fleet_share (fleet, store, node)
select $1, store, $2
from unnest($3::text[]) as wanted (store)
order by store
on conflict do nothing
