-- The tables of one box; the runner renders this text once for the outbox and once for the inbox.
-- A table for each thing that happens to a row: see ARCHITECTURE.md, section 3.

-- The order of publishing, and the identity of a work item.
create sequence postroom.outbox_seq as bigint;

-- Everything the producer said. Insert only: a payload is never rewritten.
create table postroom.outbox_message (
    id uuid primary key,
    seq bigint not null,
    occurred_at timestamptz not null,
    created_at timestamptz not null,
    due_at timestamptz,
    expires_at timestamptz,
    idempotency_key uuid,
    priority smallint not null,
    topic text not null,
    content_type text,
    aggregate_type text,
    aggregate_id text,
    ordering_key text,
    tenant_id text,
    correlation_id text,
    causation_id text,
    headers jsonb,
    payload bytea not null
);

-- What can run now or is running. Rows with an ordering key lie apart, so that neither kind is in
-- the way of claims of the other. A page is filled to two fifths, so that the claim of all its
-- rows, which makes them half as long again, is a HOT update: no index may ever be put on a column
-- that a claim changes.
create table postroom.outbox_queue (
    seq bigint not null,
    topic_hash bigint not null,
    key_hash bigint,
    tenant_hash bigint,
    locked_until timestamptz,
    expires_at timestamptz,
    id uuid not null,
    token uuid,
    owner uuid,
    attempts integer not null,
    lost integer not null,
    slot smallint,
    priority smallint not null
) partition by list (slot);

-- Rows live for seconds: vacuum by count, without pauses, and never lock to give space back.
create table postroom.outbox_queue_plain
partition of postroom.outbox_queue (primary key (seq))
for values in (null)
with (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    vacuum_truncate = off
);

create table postroom.outbox_queue_ordered
partition of postroom.outbox_queue (primary key (seq))
default
with (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    vacuum_truncate = off
);

-- The keys of a slot, each with its first row, without a look at the rows behind that.
create index on postroom.outbox_queue_ordered (slot, key_hash, seq);
-- Negated, so that "before this place in the order of claims" is one range of the index.
create index on postroom.outbox_queue_plain ((-priority), seq)
    where priority <> 0;

-- What waits for its time.
create table postroom.outbox_parked (
    seq bigint primary key,
    topic_hash bigint not null,
    key_hash bigint,
    tenant_hash bigint,
    wake_at timestamptz not null,
    expires_at timestamptz,
    id uuid not null,
    attempts integer not null,
    lost integer not null,
    slot smallint,
    priority smallint not null
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000,
    vacuum_truncate = off
);

-- One index per band of a claim; ordered rows are the business of their slot's owner.
create index on postroom.outbox_parked (wake_at, seq)
    where slot is null and priority > 0;
create index on postroom.outbox_parked (wake_at, seq)
    where slot is null and priority = 0;
create index on postroom.outbox_parked (wake_at, seq)
    where slot is null and priority < 0;
create index on postroom.outbox_parked (wake_at, seq)
    where slot is not null;

-- How it ended: 1 done, 2 dead.
create table postroom.outbox_settled (
    seq bigint primary key,
    settled_at timestamptz not null,
    id uuid not null,
    settled_by uuid,
    attempts integer not null,
    lost integer not null,
    state smallint not null check (state in (1, 2)),
    reason smallint,
    check ((state = 2) = (reason is not null))
);

-- The order of purging, and the list of dead letters.
create index on postroom.outbox_settled (settled_at)
    where state = 1;
create index on postroom.outbox_settled (settled_at)
    where reason = 6;
create index on postroom.outbox_settled (id)
    where state = 2;

-- Bad attempts (1) and lost leases (2), numbered; a replay sets the counters back, not this.
create table postroom.outbox_attempt (
    id uuid not null,
    n integer not null,
    at timestamptz not null,
    by_owner uuid,
    kind smallint not null check (kind in (1, 2)),
    error text,
    primary key (id, n)
);

-- Explicit idempotency keys. settled_at is set when the message itself is deleted before its key.
create table postroom.outbox_key (
    hash bytea primary key,
    created_at timestamptz not null,
    settled_at timestamptz,
    message_id uuid not null,
    content_hash bytea not null
);

create index on postroom.outbox_key (created_at);
create index on postroom.outbox_key (message_id);

-- Who may claim the ordered rows of which slot.
create table postroom.outbox_slot (
    slot smallint primary key check (slot between 0 and 255),
    owner uuid,
    locked_until timestamptz
) with (fillfactor = 50);

insert into postroom.outbox_slot (slot)
select generate_series(0, 255);

-- Owners that claim ordered rows: each alive one has its share of the slots.
create table postroom.outbox_node (
    owner uuid primary key,
    live_until timestamptz not null
) with (fillfactor = 50);

-- Dead ordered messages that stop their keys.
create table postroom.outbox_halt (
    seq bigint primary key,
    key_hash bigint not null,
    slot smallint not null
);

create index on postroom.outbox_halt (slot, key_hash);

-- Pauses. No topic: the whole queue.
create table postroom.outbox_control (
    topic text,
    topic_hash bigint,
    paused_at timestamptz not null,
    paused_by text,
    reason text
);

create unique index on postroom.outbox_control (coalesce(topic, ''));
