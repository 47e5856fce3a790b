-- Which process of a fleet serves which store, where this database is the fleet's home.

create table if not exists postroom_fleet_node (
  fleet      text    not null,
  node       blob    not null,
  live_until integer not null,
  primary key (fleet, node)
) without rowid;

create table if not exists postroom_fleet_share (
  fleet text not null,
  store text not null,
  node  blob not null,
  primary key (fleet, store)
) without rowid;
