-- Which process of a fleet serves which store, where this database is the fleet's home.

create table if not exists postroom_fleet_node (
    fleet varbinary(255) not null,
    node binary(16) not null,
    live_until bigint not null,
    primary key (fleet, node)
) engine = InnoDB;

create table if not exists postroom_fleet_share (
    fleet varbinary(255) not null,
    store varbinary(255) not null,
    node binary(16) not null,
    primary key (fleet, store)
) engine = InnoDB;

-- Builds for version 4 go on.
update postroom_meta
set schema_version = greatest(schema_version, 6);
