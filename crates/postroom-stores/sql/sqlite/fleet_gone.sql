-- A process is gone. What it had is freed by fleet_freed. ?1 fleet, ?2 node.
delete from postroom_fleet_node
where fleet = ?1 and node = ?2
