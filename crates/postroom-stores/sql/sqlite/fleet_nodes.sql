-- The processes of a fleet. ?1 fleet, ?2 now.
select node, live_until > ?2 as is_live
from postroom_fleet_node
where fleet = ?1
order by node
