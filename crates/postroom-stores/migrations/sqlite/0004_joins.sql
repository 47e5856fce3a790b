-- Once per database. Fan-in: a follow-up message when all members of a group are settled.
-- Nothing ever wrote to the first draft of these tables.
drop table if exists postroom_join_member;
drop table if exists postroom_join_group;

-- state: 0 open, 1 succeeded, 2 failed, 3 cancelled.
create table if not exists postroom_join_tally (
  id           blob    primary key check (length(id) = 16),
  state        integer not null check (state between 0 and 3),
  expected     integer not null check (expected > 0),
  attached     integer not null default 0 check (attached <= expected),
  done         integer not null default 0 check (done >= 0),
  dead         integer not null default 0 check (dead >= 0 and done + dead <= attached),
  created_at   integer not null,
  ended_at     integer,
  follow_up    blob,
  content_hash blob    not null,
  check ((state = 0) = (ended_at is null))
) without rowid;
-- Whether there is anything to count at all, and the order of purging.
create index if not exists postroom_join_tally_open
  on postroom_join_tally (id) where state = 0;
create index if not exists postroom_join_tally_ended
  on postroom_join_tally (ended_at) where state <> 0;

-- outcome: 1 done, 2 dead; none while the message is not settled.
create table if not exists postroom_join_message (
  join_id    blob    not null,
  message_id blob    not null,
  in_inbox   integer not null check (in_inbox in (0, 1)),
  outcome    integer check (outcome in (1, 2)),
  primary key (join_id, message_id)
) without rowid;
create index if not exists postroom_join_message_message on postroom_join_message (message_id);

-- The messages that the end of a join publishes, by the state that it ends in. They go with it.
create table if not exists postroom_join_follow_up (
  join_id        blob    not null,
  state          integer not null check (state in (1, 2)),
  id             blob    not null check (length(id) = 16),
  topic_hash     integer not null,
  key_hash       integer,
  tenant_hash    integer,
  slot           integer,
  priority       integer not null,
  topic          text    not null,
  content_type   text,
  aggregate_type text,
  aggregate_id   text,
  ordering_key   text,
  tenant_id      text,
  correlation_id text,
  causation_id   text,
  headers        text,
  payload        blob    not null,
  primary key (join_id, state)
) without rowid;
