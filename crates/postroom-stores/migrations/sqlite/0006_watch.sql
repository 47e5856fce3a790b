-- What people look at. One box, and at the end what both share.

-- What dispatchers say of themselves. The slots are divided by the table of nodes, not by this.
create table if not exists postroom_outbox_dispatcher (
  owner      blob    primary key,
  name       text    not null,
  version    text    not null,
  started_at integer not null,
  seen_at    integer not null,
  live_until integer not null,
  draining   integer not null check (draining in (0, 1))
) without rowid;

-- Lists by aggregate and by ordering key. Messages without one are in neither, so that who does not
-- use them does not pay.
create index if not exists postroom_outbox_message_aggregate
  on postroom_outbox_message (aggregate_type, aggregate_id, id)
  where aggregate_type is not null and aggregate_id is not null;
create index if not exists postroom_outbox_message_ordering
  on postroom_outbox_message (ordering_key, id) where ordering_key is not null;

-- What people did, in both boxes.
create table if not exists postroom_audit (
  number  integer primary key autoincrement,
  at      integer not null,
  actor   text    not null,
  action  text    not null,
  target  text    not null,
  outcome text    not null,
  changed integer not null
);
