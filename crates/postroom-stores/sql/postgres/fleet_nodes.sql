-- The processes of a fleet, in an order in which nobody meets another one who holds a later row.
-- Whoever divides the stores holds them, so that the next one sees the result. $1 fleet, $2 now.
select node, live_until > coalesce($2::timestamptz, clock_timestamp()) as is_live
from postroom.fleet_node
where fleet = $1
order by node
for update
