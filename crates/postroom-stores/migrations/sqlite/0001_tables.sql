-- One box: written for the outbox, run once for each box. Times are microseconds since 1970 (UTC).

-- Everything the producer said. Rows are inserted, never changed, deleted by purge.
create table if not exists postroom_outbox_message (
  -- autoincrement: a plain rowid would be reused, and a place in the queue must never be.
  seq             integer primary key autoincrement,
  id              blob    not null unique check (length(id) = 16),
  topic           text    not null,
  payload         blob    not null,
  content_type    text,
  headers         text,
  aggregate_type  text,
  aggregate_id    text,
  ordering_key    text,
  tenant_id       text,
  correlation_id  text,
  causation_id    text,
  idempotency_key blob,
  occurred_at     integer not null,
  due_at          integer,
  expires_at      integer,
  priority        integer not null default 0,
  created_at      integer not null
);

-- What can run now or is running: narrow, and short-lived.
create table if not exists postroom_outbox_queue (
  seq          integer primary key,
  id           blob    not null,
  slot         integer,
  key_hash     integer,
  tenant_hash  integer,
  topic_hash   integer not null,
  priority     integer not null,
  token        blob,
  owner        blob,
  locked_until integer,
  attempts     integer not null default 0,
  lost         integer not null default 0,
  expires_at   integer,
  check ((token is null) = (owner is null)),
  check (token is null or locked_until is not null)
);
-- Ordered rows by key, and those of them in somebody's hands.
create index if not exists postroom_outbox_queue_slot
  on postroom_outbox_queue (slot, key_hash, seq) where slot is not null;
create index if not exists postroom_outbox_queue_held
  on postroom_outbox_queue (slot, key_hash) where token is not null and slot is not null;
-- The others, so that no backlog of ordered rows is in their way. Three by priority, because SQLite
-- does not see that priority > 0 implies priority <> 0.
create index if not exists postroom_outbox_queue_plain
  on postroom_outbox_queue (seq) where priority = 0 and slot is null;
create index if not exists postroom_outbox_queue_high
  on postroom_outbox_queue (priority desc, seq) where priority > 0 and slot is null;
create index if not exists postroom_outbox_queue_low
  on postroom_outbox_queue (priority desc, seq) where priority < 0 and slot is null;
create index if not exists postroom_outbox_queue_suspect
  on postroom_outbox_queue (seq) where lost > 0 and slot is null;

-- What waits for its time: a retry, or a due time.
create table if not exists postroom_outbox_parked (
  seq         integer primary key,
  id          blob    not null,
  slot        integer,
  key_hash    integer,
  tenant_hash integer,
  topic_hash  integer not null,
  priority    integer not null,
  wake_at     integer not null,
  attempts    integer not null default 0,
  lost        integer not null default 0,
  expires_at  integer
);
create index if not exists postroom_outbox_parked_high
  on postroom_outbox_parked (wake_at, seq) where priority > 0;
create index if not exists postroom_outbox_parked_zero
  on postroom_outbox_parked (wake_at, seq) where priority = 0;
create index if not exists postroom_outbox_parked_low
  on postroom_outbox_parked (wake_at, seq) where priority < 0;
create index if not exists postroom_outbox_parked_suspect
  on postroom_outbox_parked (wake_at, seq) where lost > 0;
create index if not exists postroom_outbox_parked_slot
  on postroom_outbox_parked (wake_at, seq) where slot is not null;

-- How it ended. state: 1 done, 2 dead.
create table if not exists postroom_outbox_settled (
  seq        integer primary key,
  id         blob    not null,
  state      integer not null check (state in (1, 2)),
  reason     integer,
  settled_at integer not null,
  settled_by blob,
  attempts   integer not null,
  lost       integer not null,
  check ((state = 2) = (reason is not null))
);
create index if not exists postroom_outbox_settled_at
  on postroom_outbox_settled (state, settled_at);

-- One row per bad attempt (kind 1) or lost lease (kind 2).
create table if not exists postroom_outbox_attempt (
  id       blob    not null,
  n        integer not null,
  at       integer not null,
  by_owner blob,
  kind     integer not null check (kind in (1, 2)),
  error    text,
  primary key (id, n)
) without rowid;

-- Idempotency keys: SHA-256 over tenant and key.
create table if not exists postroom_outbox_key (
  hash       blob    primary key check (length(hash) = 32),
  message_id blob    not null,
  created_at integer not null,
  -- Set when the message was deleted; until then its settled row tells.
  gone_at    integer
) without rowid;

-- Who claims the ordered messages of a slot. It is free without an owner, or when its time is over.
create table if not exists postroom_outbox_slot (
  slot         integer primary key,
  owner        blob,
  locked_until integer,
  check ((owner is null) = (locked_until is null))
);
with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 255)
insert or ignore into postroom_outbox_slot (slot) select n from numbers;

-- Owners that claim ordered messages: the slots are shared out among those alive.
create table if not exists postroom_outbox_node (
  owner      blob    primary key,
  live_until integer not null
) without rowid;

-- Dead messages that stop their keys.
create table if not exists postroom_outbox_halt (
  seq      integer primary key,
  slot     integer not null,
  key_hash integer not null
);
create index if not exists postroom_outbox_halt_key
  on postroom_outbox_halt (slot, key_hash);

-- Paused topics; no topic means the whole queue.
create table if not exists postroom_outbox_control (
  topic      text,
  topic_hash integer,
  paused_at  integer not null,
  paused_by  text,
  reason     text
);
create unique index if not exists postroom_outbox_control_topic
  on postroom_outbox_control (coalesce(topic, ''));

-- For people in a shell.
create view if not exists postroom_outbox as
select
  lower(hex(m.id))                                  as id,
  m.seq,
  m.topic,
  m.aggregate_type,
  m.aggregate_id,
  m.tenant_id,
  m.ordering_key,
  m.correlation_id,
  case
    when s.state = 1 then 'done'
    when s.state = 2 then 'dead'
    when q.token is not null then 'leased'
    when p.seq is not null or q.locked_until is not null then 'waiting'
    else 'ready'
  end                                               as status,
  coalesce(s.attempts, q.attempts, p.attempts)      as retry_count,
  coalesce(s.lost, q.lost, p.lost)                  as lost_leases,
  datetime(m.created_at / 1e6, 'unixepoch')         as created_at,
  datetime(m.due_at / 1e6, 'unixepoch')             as due_at,
  datetime(coalesce(p.wake_at, case when q.token is null then q.locked_until end) / 1e6,
           'unixepoch')                             as next_attempt_at,
  datetime(case when q.token is not null then q.locked_until end / 1e6,
           'unixepoch')                             as locked_until,
  lower(hex(q.owner))                               as owner_token,
  datetime(s.settled_at / 1e6, 'unixepoch')         as processed_at,
  lower(hex(s.settled_by))                          as processed_by,
  case s.reason
    when 1 then 'attempts used up'
    when 2 then 'permanent error'
    when 3 then 'lost leases'
    when 4 then 'expired'
    when 5 then 'undecodable'
    when 6 then 'discarded'
  end                                               as dead_reason,
  case when s.state is not 1 then
    (select a.error from postroom_outbox_attempt a where a.id = m.id order by a.n desc limit 1)
  end                                               as last_error,
  cast(m.payload as text)                           as payload_text
from postroom_outbox_message m
left join postroom_outbox_queue   q on q.seq = m.seq
left join postroom_outbox_parked  p on p.seq = m.seq
left join postroom_outbox_settled s on s.seq = m.seq;
