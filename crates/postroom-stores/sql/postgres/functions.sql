-- Postroom for any language: claim, settle and reap as functions, on the very statements that the
-- Rust store runs: a file name in double braces stands for its text. Each migration replaces them.
-- plpgsql keeps its plans for the session, where a function in SQL would be planned by each call.

create or replace function postroom.outbox_run_claim(
    timestamptz, uuid, uuid, bigint, integer, integer, integer, bigint, bigint[], bigint[]
)
returns table (
    paused bigint[], dead bigint, passed bigint, taken bigint, suspects bigint,
    ordered_work boolean,
    claimed_at timestamptz, locked_until timestamptz,
    seq bigint, attempts integer, lost integer, created_at timestamptz,
    id uuid, topic text, payload bytea, content_type text, headers text,
    aggregate_type text, aggregate_id text, ordering_key text, tenant_id text,
    correlation_id text, causation_id text, idempotency_key uuid,
    occurred_at timestamptz, due_at timestamptz, expires_at timestamptz, priority smallint,
    source text, source_id text, consumer text
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
begin
return query
{{claim.sql}};
end
$body$;

create or replace function postroom.outbox_run_settle(
    timestamptz, uuid, bigint[], uuid[], smallint[], bigint[], boolean[], smallint[], text[],
    boolean, boolean
)
returns table (seq bigint, token uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
begin
return query
{{settle.sql}};
end
$body$;

create or replace function postroom.outbox_run_renew(
    timestamptz, uuid, bigint[], uuid[], bigint
)
returns table (seq bigint, token uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
begin
return query
{{renew.sql}};
end
$body$;

create or replace function postroom.outbox_run_reap(timestamptz, integer, integer)
returns table (released bigint, dead bigint, more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
begin
return query
{{reap.sql}};
end
$body$;

-- A duration in whole microseconds.
create or replace function postroom.micros(duration interval)
returns bigint
language sql
immutable
as $body$
    select (extract(epoch from duration) * 1000000)::bigint
$body$;

-- An argument must lie within its bounds.
create or replace function postroom.check_bounds(field text, allowed text, got text, fits boolean)
returns void
language plpgsql
as $body$
begin
    if fits is not true then
        raise exception '% must be %, got %', field, allowed, coalesce(got, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
end
$body$;

-- Leases up to batch messages to owner. Settle each with its seq and token before the lease ends.
-- Messages of one ordering key come in order, and no more of it come before those are settled:
-- handle them one after the other, and when one does not end as done or dead, release the rest.
create or replace function postroom.outbox_claim(
    owner uuid,
    lease interval default '30 seconds',
    batch integer default 50,
    suspects integer default 1,
    max_attempts integer default 10,
    halt boolean default false
)
returns table (
    seq bigint, token uuid, locked_until timestamptz, attempts integer, lost integer,
    created_at timestamptz, id uuid, topic text, payload bytea, content_type text, headers jsonb,
    aggregate_type text, aggregate_id text, ordering_key text, tenant_id text,
    correlation_id text, causation_id text, idempotency_key uuid,
    occurred_at timestamptz, due_at timestamptz, expires_at timestamptz, priority smallint,
    source text, source_id text, consumer text
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
#variable_conflict use_column
declare
    fresh_token uuid := gen_random_uuid();
    room integer := $3;
    got integer;
    paused bigint[];
    -- Both kinds come first in turn, and so do the keys.
    steps text[] := case
        when random() < 0.5 then array['unordered', 'from anywhere', 'from the first key']
        else array['from anywhere', 'from the first key', 'unordered']
    end;
    step text;
begin
    perform
        postroom.check_bounds(
            'owner', 'a UUID other than nil', $1::text,
            $1 <> '00000000-0000-0000-0000-000000000000'
        ),
        postroom.check_bounds(
            'lease', 'more than 0 and at most 24 h', $2::text,
            postroom.micros($2) between 1 and 86400000000
        ),
        postroom.check_bounds('batch', '1 to 10000', $3::text, $3 between 1 and 10000),
        postroom.check_bounds('suspects', '0 or more', $4::text, $4 >= 0);
    foreach step in array steps loop
        exit when room <= 0;
        if step = 'unordered' then
            paused := array(
                select topic_hash from postroom.outbox_control order by coalesce(topic, '')
            );
            -- The whole queue is.
            continue when array_position(paused, null) is not null;
            return query
            select
                run.seq, fresh_token, run.locked_until, run.attempts, run.lost,
                run.created_at, run.id, run.topic, run.payload,
                coalesce(run.content_type, 'application/json'), run.headers::jsonb,
                run.aggregate_type, run.aggregate_id, run.ordering_key, run.tenant_id,
                run.correlation_id, run.causation_id, run.idempotency_key,
                run.occurred_at, run.due_at, run.expires_at, run.priority,
                run.source, run.source_id, run.consumer
            from postroom.outbox_run_claim(
                null, $1, fresh_token, postroom.micros($2), room, least(room, $4), $5, 0,
                paused, paused
            ) as run
            where run.seq is not null;
        else
            return query
            select
                run.seq, fresh_token, run.locked_until, run.attempts, run.lost,
                run.created_at, run.id, run.topic, run.payload,
                coalesce(run.content_type, 'application/json'), run.headers::jsonb,
                run.aggregate_type, run.aggregate_id, run.ordering_key, run.tenant_id,
                run.correlation_id, run.causation_id, run.idempotency_key,
                run.occurred_at, run.due_at, run.expires_at, run.priority,
                run.source, run.source_id, run.consumer
            from postroom.outbox_claim_ordered(
                null, $1, fresh_token, postroom.micros($2), room, least(room, $4), $5,
                case step when 'from anywhere' then floor(256 * random()) end::smallint,
                null, null, '{}', $6, room
            ) as run
            where run.seq is not null;
        end if;
        get diagnostics got = row_count;
        room := room - got;
    end loop;
end
$body$;

-- The same outcome for all items; an item that is named twice counts once.
create or replace function postroom.outbox_settle_all(
    owner uuid, seqs bigint[], tokens uuid[],
    kind smallint, counted boolean, reason smallint, error text, keep_done boolean,
    halt boolean
)
returns setof bigint
language sql
set search_path = pg_catalog, pg_temp
as $body$
    select run.seq
    from (
        select
            array_agg(item.seq) as seqs,
            array_agg(item.token) as tokens,
            array_agg($4) as kinds,
            array_agg(0::bigint) as delays,
            array_agg($5) as counted,
            array_agg($6) as reasons,
            array_agg(nullif(left($7, 2000), '')) as errors
        from (select distinct * from unnest($2, $3) as given (seq, token)) as item
    ) as batch
    cross join lateral postroom.outbox_run_settle(
        null, $1, batch.seqs, batch.tokens, batch.kinds, batch.delays, batch.counted,
        batch.reasons, batch.errors, $8, $9
    ) as run
$body$;

-- Done. Answers with the seqs that this applied to; the others were not yours any more.
create or replace function postroom.outbox_ack(
    owner uuid, seqs bigint[], tokens uuid[], keep_done boolean default true
)
returns setof bigint
language sql
set search_path = pg_catalog, pg_temp
as $body$
    select postroom.outbox_settle_all($1, $2, $3, 1::smallint, false, null, null, $4, false)
$body$;

-- Tried and failed. Without a delay: 200 ms doubling up to 60 s with jitter, and dead when the
-- attempts are used up. With one: ready again after it.
create or replace function postroom.outbox_abandon(
    owner uuid,
    seqs bigint[],
    tokens uuid[],
    error text default null,
    delay interval default null,
    max_attempts integer default 10,
    halt boolean default false
)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
#variable_conflict use_column
begin
    perform postroom.check_bounds(
        'delay', 'more than 0', $5::text, $5 is null or postroom.micros($5) > 0
    );
    return query
    select run.seq
    from (
        select
            array_agg(item.seq) as seqs,
            array_agg(item.token) as tokens,
            array_agg(case when item.is_last then 2 else 3 end::smallint) as kinds,
            array_agg(item.delay) as delays,
            array_agg(true) as counted,
            array_agg(case when item.is_last then 1 end::smallint) as reasons,
            array_agg(nullif(left($4, 2000), '')) as errors
        from (
            select
                given.seq,
                given.token,
                $5 is null and coalesce(queue.attempts, 0) + 1 >= $6 as is_last,
                coalesce(
                    postroom.micros($5),
                    (
                        least(60e6, 200e3 * 2 ^ least(coalesce(queue.attempts, 0), 20))
                        * (0.5 + random())
                    )::bigint
                ) as delay
            from (select distinct * from unnest($2, $3) as pair (seq, token)) as given
            left join lateral (
                select attempts
                from postroom.outbox_queue as place
                where place.seq = given.seq
                limit 1
            ) as queue on true
        ) as item
    ) as batch
    cross join lateral postroom.outbox_run_settle(
        null, $1, batch.seqs, batch.tokens, batch.kinds, batch.delays, batch.counted,
        batch.reasons, batch.errors, true, $7
    ) as run;
end
$body$;

-- Will never work: dead. With halt it stops its ordering key until somebody replays or discards it.
create or replace function postroom.outbox_fail(
    owner uuid, seqs bigint[], tokens uuid[], error text default null, halt boolean default false
)
returns setof bigint
language sql
set search_path = pg_catalog, pg_temp
as $body$
    select postroom.outbox_settle_all($1, $2, $3, 2::smallint, true, 2::smallint, $4, true, $5)
$body$;

-- Never tried: ready at once, no attempt.
create or replace function postroom.outbox_release(owner uuid, seqs bigint[], tokens uuid[])
returns setof bigint
language sql
set search_path = pg_catalog, pg_temp
as $body$
    select postroom.outbox_settle_all($1, $2, $3, 4::smallint, false, null, null, true, false)
$body$;

-- Extends leases that have not run out.
create or replace function postroom.outbox_renew(
    owner uuid, seqs bigint[], tokens uuid[], lease interval default '30 seconds'
)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
#variable_conflict use_column
begin
    perform postroom.check_bounds(
        'lease', 'more than 0 and at most 24 h', $4::text,
        postroom.micros($4) between 1 and 86400000000
    );
    return query
    select run.seq
    from postroom.outbox_run_renew(null, $1, $2, $3, postroom.micros($4)) as run;
end
$body$;

-- Returns expired leases to ready, or to dead past the maximum, and makes expired messages dead.
create or replace function postroom.outbox_reap(
    max_rows integer default 1000, max_attempts integer default 10
)
returns table (released bigint, dead bigint, more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
#variable_conflict use_column
begin
    perform postroom.check_bounds('max_rows', '1 to 10000', $1::text, $1 between 1 and 10000);
    return query
    select run.released, run.dead, run.more
    from postroom.outbox_run_reap(null, $1, $2) as run;
end
$body$;
