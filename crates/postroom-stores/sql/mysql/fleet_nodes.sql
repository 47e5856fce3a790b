-- The processes of a fleet, in an order in which nobody meets another one who holds a later row.
-- Whoever divides the stores holds them, so that the next one sees the result. Now, fleet.
select
    node,
    live_until > coalesce(
        ?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    ) as is_live
from postroom_fleet_node
where fleet = cast(? as binary)
order by node
for update
