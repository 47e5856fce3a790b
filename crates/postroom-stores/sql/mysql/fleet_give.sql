-- A process serves these no longer. Fleet, node, stores as a JSON list.
delete from postroom_fleet_share
where fleet = cast(? as binary)
    and node = ?
    and store in (
        select cast(wanted.store as binary)
        from json_table(?, '$[*]' columns (store varchar(255) path '$')) as wanted
    )
