-- What both boxes share.

-- Fan-in: a follow-up message when all members are settled.
create table postroom.join_group (
    id uuid primary key,
    tenant_id text,
    expected integer check (expected >= 0),
    done integer not null default 0,
    dead integer not null default 0,
    success_topic text,
    success_payload bytea,
    failure_topic text,
    failure_payload bytea,
    created_at timestamptz not null,
    completed_at timestamptz,
    cancelled_at timestamptz
);

create table postroom.join_member (
    group_id uuid not null,
    message_id uuid not null,
    state smallint check (state in (1, 2)),
    primary key (group_id, message_id)
);

create index on postroom.join_member (message_id);

-- One row: which migrations ran, and the oldest build that may still work here.
create table postroom.meta (
    singleton boolean primary key default true check (singleton),
    schema_version integer not null,
    min_client integer not null
);

insert into postroom.meta (schema_version, min_client)
values (2, 1);
