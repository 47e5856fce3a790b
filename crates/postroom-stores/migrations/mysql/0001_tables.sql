-- The tables of one box; the runner renders this text once for the outbox and once for the inbox.
-- Times are microseconds since 1970 (UTC). Whatever is compared is binary: collations would merge
-- `Order.Created` with `order.created`, and `a` with `a `. DDL commits by itself here, so every
-- statement may be run again.

-- Everything the producer said, and its place in the order of publishing. Insert only.
create table if not exists postroom_outbox_message (
    seq bigint not null auto_increment,
    id binary(16) not null,
    occurred_at bigint not null,
    created_at bigint not null,
    due_at bigint,
    expires_at bigint,
    idempotency_key binary(16),
    priority smallint not null,
    topic varbinary(1020) not null,
    content_type varbinary(1020),
    aggregate_type varbinary(256),
    aggregate_id varbinary(512),
    ordering_key varbinary(1020),
    tenant_id varbinary(256),
    correlation_id varbinary(1020),
    causation_id varbinary(1020),
    source varbinary(1020),
    source_id varbinary(1020),
    consumer varbinary(1020),
    headers mediumblob,
    payload longblob not null,
    primary key (seq),
    unique key (id)
) engine = InnoDB;

-- What can run now or is running, without an ordering key, in the order of claims: band is minus
-- the priority. No column is null that a claim sets, so that a row keeps its length and its page.
create table if not exists postroom_outbox_queue (
    band smallint not null,
    seq bigint not null,
    id binary(16) not null,
    topic_hash bigint not null,
    tenant_hash bigint,
    expires_at bigint,
    leased tinyint not null default 0,
    token binary(16) not null default '',
    owner binary(16) not null default '',
    locked_until bigint not null default 0,
    attempts int not null default 0,
    lost int not null default 0,
    primary key (band, seq),
    unique key (seq)
) engine = InnoDB;

-- The same with an ordering key, by key. A row stays here until it is settled: what waits for a
-- retry has a locked_until in the future and is not leased.
create table if not exists postroom_outbox_ordered (
    slot smallint not null,
    key_hash bigint not null,
    seq bigint not null,
    id binary(16) not null,
    topic_hash bigint not null,
    tenant_hash bigint,
    expires_at bigint,
    priority smallint not null,
    leased tinyint not null default 0,
    token binary(16) not null default '',
    owner binary(16) not null default '',
    locked_until bigint not null default 0,
    attempts int not null default 0,
    lost int not null default 0,
    primary key (slot, key_hash, seq),
    unique key (seq)
) engine = InnoDB;

-- What waits for its time. Rows with an ordering key have a band of their own: 1000.
create table if not exists postroom_outbox_parked (
    seq bigint not null,
    band smallint not null,
    wake_at bigint not null,
    id binary(16) not null,
    slot smallint,
    key_hash bigint,
    topic_hash bigint not null,
    tenant_hash bigint,
    priority smallint not null,
    expires_at bigint,
    attempts int not null default 0,
    lost int not null default 0,
    primary key (seq),
    key waking (band, wake_at, seq)
) engine = InnoDB;

-- How it ended: 1 done, 2 dead.
create table if not exists postroom_outbox_settled (
    seq bigint not null,
    settled_at bigint not null,
    id binary(16) not null,
    settled_by binary(16),
    attempts int not null,
    lost int not null,
    state smallint not null check (state in (1, 2)),
    reason smallint,
    primary key (seq),
    key ageing (state, settled_at),
    check ((state = 2) = (reason is not null))
) engine = InnoDB;

-- Bad attempts (1) and lost leases (2), numbered; a replay sets the counters back, not this.
create table if not exists postroom_outbox_attempt (
    id binary(16) not null,
    n int not null,
    at bigint not null,
    by_owner binary(16),
    kind smallint not null check (kind in (1, 2)),
    error mediumblob,
    primary key (id, n)
) engine = InnoDB;

-- Explicit idempotency keys. settled_at is set when the message itself is deleted before its key.
-- An upsert does not say whether it wrote the row: written_by does, a number drawn per append.
create table if not exists postroom_outbox_key (
    hash binary(32) not null,
    written_by bigint not null,
    created_at bigint not null,
    settled_at bigint,
    message_id binary(16) not null,
    content_hash varbinary(32) not null,
    primary key (hash),
    key (created_at),
    key (message_id)
) engine = InnoDB;

-- Who may claim the ordered rows of which slot.
create table if not exists postroom_outbox_slot (
    slot smallint not null check (slot between 0 and 255),
    owner binary(16),
    locked_until bigint,
    primary key (slot)
) engine = InnoDB;

insert ignore into postroom_outbox_slot (slot)
with recursive numbered (slot) as (
    select 0
    union all
    select slot + 1 from numbered where slot < 255
)
select slot from numbered;

-- Owners that claim ordered rows: each alive one has its share of the slots.
create table if not exists postroom_outbox_node (
    owner binary(16) not null,
    live_until bigint not null,
    primary key (owner)
) engine = InnoDB;

-- Dead ordered messages that stop their keys.
create table if not exists postroom_outbox_halt (
    seq bigint not null,
    key_hash bigint not null,
    slot smallint not null,
    primary key (seq),
    key (slot, key_hash)
) engine = InnoDB;

-- Pauses. An empty topic is the whole queue.
create table if not exists postroom_outbox_control (
    topic varbinary(1020) not null,
    topic_hash bigint,
    paused_at bigint not null,
    paused_by mediumblob,
    reason mediumblob,
    primary key (topic)
) engine = InnoDB;
