-- Fan-in: a follow-up message when all members of a group are settled. Both boxes share it.

-- state: 0 open, 1 succeeded, 2 failed, 3 cancelled. The counts are changed under the row's lock.
create table if not exists postroom_join_tally (
    id binary(16) not null,
    state smallint not null check (state between 0 and 3),
    expected int not null check (expected > 0),
    attached int not null default 0,
    done int not null default 0,
    dead int not null default 0,
    created_at bigint not null,
    ended_at bigint,
    follow_up binary(16),
    content_hash binary(32) not null,
    primary key (id),
    key ending (state, ended_at),
    check (attached <= expected),
    check (done >= 0 and dead >= 0 and done + dead <= attached),
    check ((state = 0) = (ended_at is null))
) engine = InnoDB;

-- outcome: 1 done, 2 dead; none while the message is not settled.
create table if not exists postroom_join_message (
    join_id binary(16) not null,
    message_id binary(16) not null,
    in_inbox tinyint not null,
    outcome smallint check (outcome in (1, 2)),
    primary key (join_id, message_id),
    key (message_id)
) engine = InnoDB;

-- The messages that the end of a join publishes, by the state that it ends in. They go with it.
create table if not exists postroom_join_follow_up (
    join_id binary(16) not null,
    state smallint not null check (state in (1, 2)),
    id binary(16) not null,
    topic_hash bigint not null,
    key_hash bigint,
    tenant_hash bigint,
    slot smallint,
    priority smallint not null,
    topic varbinary(1020) not null,
    content_type varbinary(1020),
    aggregate_type varbinary(256),
    aggregate_id varbinary(512),
    ordering_key varbinary(1020),
    tenant_id varbinary(256),
    correlation_id varbinary(1020),
    causation_id varbinary(1020),
    headers mediumblob,
    payload longblob not null,
    primary key (join_id, state)
) engine = InnoDB;

update postroom_meta
set schema_version = greatest(schema_version, 4),
    min_client = greatest(min_client, 4);
