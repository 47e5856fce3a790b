-- What people look at. One box, and at the end what both share, which is made once.

-- What dispatchers say of themselves. The slots are divided by the table of nodes, not by this.
create table postroom.outbox_dispatcher (
    owner uuid primary key,
    name text not null,
    version text not null,
    started_at timestamptz not null,
    seen_at timestamptz not null,
    live_until timestamptz not null,
    draining boolean not null
) with (fillfactor = 50);

-- Lists by aggregate and by ordering key. Messages without one are in neither, so that who does not
-- use them does not pay. Building them keeps writers waiting: whoever has too many messages for
-- that makes them beforehand, concurrently, and they are found here.
do $body$
declare
    made text[] := array(
        select substring(pg_get_indexdef(indexrelid) from 'USING (.*)$')
        from pg_index
        where indrelid = 'postroom.outbox_message'::regclass
            and indisvalid
    );
begin
    if not 'btree (aggregate_type, aggregate_id, id) WHERE'
        || ' ((aggregate_type IS NOT NULL) AND (aggregate_id IS NOT NULL))' = any(made)
    then
        create index on postroom.outbox_message (aggregate_type, aggregate_id, id)
            where aggregate_type is not null and aggregate_id is not null;
    end if;
    if not 'btree (ordering_key, id) WHERE (ordering_key IS NOT NULL)' = any(made) then
        create index on postroom.outbox_message (ordering_key, id)
            where ordering_key is not null;
    end if;
end
$body$;

-- The dead letters that died last.
create index on postroom.outbox_settled (settled_at, seq)
    where state = 2 and reason <> 6;

-- What people did, in both boxes.
create table if not exists postroom.audit (
    number bigint generated always as identity primary key,
    at timestamptz not null,
    actor text not null,
    action text not null,
    target text not null,
    outcome text not null,
    changed bigint not null
);

-- Builds for version 4 go on: they say nothing of themselves.
update postroom.meta
set schema_version = 5;
