-- A process is gone: what it had is free. $1 fleet, $2 node.
with gone as (
    delete from postroom.fleet_node
    where fleet = $1 and node = $2
)
delete from postroom.fleet_share
where fleet = $1 and node = $2
