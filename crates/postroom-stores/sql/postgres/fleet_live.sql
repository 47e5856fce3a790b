-- A process says that it lives. $1 fleet, $2 node, $3 for how long in microseconds, $4 now.
insert into postroom.fleet_node (fleet, node, live_until)
values (
    $1, $2, coalesce($4::timestamptz, clock_timestamp()) + $3::bigint * interval '1 microsecond'
)
on conflict (fleet, node) do update
set live_until = excluded.live_until
