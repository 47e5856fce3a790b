-- What a process had is free. Fleet, node.
delete from postroom_fleet_share
where fleet = cast(? as binary) and node = ?
