-- A process says that it lives. Fleet, node, now, for how long in microseconds.
insert into postroom_fleet_node (fleet, node, live_until)
values (
    cast(? as binary), ?,
    coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))) + ?
)
on duplicate key update live_until = values(live_until)
