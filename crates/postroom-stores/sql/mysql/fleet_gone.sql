-- A process is gone. What it had is freed by fleet_freed. Fleet, node.
delete from postroom_fleet_node
where fleet = cast(? as binary) and node = ?
