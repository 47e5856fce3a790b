-- What an inbox adds to a box: where a message came from.
alter table postroom.outbox_message
    add column source text,
    add column source_id text,
    add column consumer text;

-- Functions of version 2 whose answers or arguments are others now.
drop function if exists postroom.outbox_run_claim(
    timestamptz, uuid, uuid, bigint, integer, integer, integer, bigint, bigint[], bigint[]
);
drop function if exists postroom.outbox_claim_ordered(
    timestamptz, uuid, uuid, bigint, integer, integer, integer, smallint, bigint, bigint[],
    bigint[], boolean, integer
);
drop function if exists postroom.outbox_claim(
    uuid, interval, integer, integer, integer, boolean
);
drop function if exists postroom.outbox_run_append(
    timestamptz, uuid[], text[], bytea[], text[], text[],
    text[], text[], text[], text[], text[], text[],
    uuid[], bytea[], bytea[],
    timestamptz[], timestamptz[], bigint[], timestamptz[], bigint[],
    smallint[], smallint[], bigint[], bigint[], bigint[],
    uuid[], uuid[], bigint[]
);

-- Builds for version 2 would lose what is new here.
update postroom.meta
set schema_version = 3,
    min_client = 3;
