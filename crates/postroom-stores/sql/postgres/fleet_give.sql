-- A process serves these no longer. $1 fleet, $2 node, $3 stores.
delete from postroom.fleet_share
where fleet = $1
    and node = $2
    and store = any($3::text[])
