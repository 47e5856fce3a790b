-- Once per database: joins.

-- Fan-in: a follow-up when all members are settled.
create table if not exists postroom_join_group (
  id              blob    primary key,
  expected        integer not null,
  done            integer not null default 0,
  dead            integer not null default 0,
  state           integer not null default 0 check (state in (0, 1, 2, 3)),
  success_topic   text,
  success_payload blob,
  failure_topic   text,
  failure_payload blob,
  created_at      integer not null,
  completed_at    integer
) without rowid;
create table if not exists postroom_join_member (
  join_id    blob    not null,
  message_id blob    not null,
  outcome    integer not null default 0 check (outcome in (0, 1, 2)),
  primary key (join_id, message_id)
) without rowid;
create index if not exists postroom_join_member_message on postroom_join_member (message_id);
