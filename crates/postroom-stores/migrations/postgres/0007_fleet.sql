-- Which process of a fleet serves which store, where this database is the fleet's home.

create table if not exists postroom.fleet_node (
    fleet text not null,
    node uuid not null,
    live_until timestamptz not null,
    primary key (fleet, node)
) with (fillfactor = 50);

create table if not exists postroom.fleet_share (
    fleet text not null,
    store text not null,
    node uuid not null,
    primary key (fleet, store)
);

-- Builds for version 4 go on.
update postroom.meta
set schema_version = 7;
