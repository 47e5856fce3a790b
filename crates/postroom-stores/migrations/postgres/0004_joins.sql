-- Fan-in: a follow-up message when all members of a group are settled. Both boxes share it.
-- Nothing ever wrote to the first draft of these tables.
drop table postroom.join_member;
drop table postroom.join_group;

-- state: 0 open, 1 succeeded, 2 failed, 3 cancelled. The counts are changed under the row's lock.
create table postroom.join_tally (
    id uuid primary key,
    state smallint not null check (state between 0 and 3),
    expected integer not null check (expected > 0),
    attached integer not null default 0 check (attached <= expected),
    done integer not null default 0 check (done >= 0),
    dead integer not null default 0 check (dead >= 0 and done + dead <= attached),
    created_at timestamptz not null,
    ended_at timestamptz,
    follow_up uuid,
    content_hash bytea not null,
    check ((state = 0) = (ended_at is null))
) with (fillfactor = 50);

-- Whether there is anything to count at all, and the order of purging.
create index on postroom.join_tally (id)
    where state = 0;
create index on postroom.join_tally (ended_at)
    where state <> 0;

-- outcome: 1 done, 2 dead; none while the message is not settled.
create table postroom.join_message (
    join_id uuid not null,
    message_id uuid not null,
    in_inbox boolean not null,
    outcome smallint check (outcome in (1, 2)),
    primary key (join_id, message_id)
);

create index on postroom.join_message (message_id);

-- The messages that the end of a join publishes, by the state that it ends in. They go with it.
create table postroom.join_follow_up (
    join_id uuid not null,
    state smallint not null check (state in (1, 2)),
    id uuid not null,
    topic_hash bigint not null,
    key_hash bigint,
    tenant_hash bigint,
    slot smallint,
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
    payload bytea not null,
    primary key (join_id, state)
);

-- An older build would settle members without counting them.
update postroom.meta
set schema_version = 4,
    min_client = 4;
