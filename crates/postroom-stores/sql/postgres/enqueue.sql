-- Publishing from any language, inside the caller's own transaction. Each migration replaces this.
-- Limits and hashes are those of the Rust crate; a test compares them.

create or replace function postroom.length_prefixed(bytes bytea)
returns bytea
language sql
immutable
as $body$
    select int8send(octet_length(bytes)::bigint) || bytes
$body$;

create or replace function postroom.length_prefixed(chars text)
returns bytea
language sql
immutable
as $body$
    select int8send(octet_length(convert_to(coalesce(chars, ''), 'UTF8'))::bigint)
        || convert_to(coalesce(chars, ''), 'UTF8')
$body$;

-- The first eight bytes of SHA-256.
create or replace function postroom.hash64(bytes bytea)
returns bigint
language sql
immutable
as $body$
    select ('x' || encode(substr(sha256(bytes), 1, 8), 'hex'))::bit(64)::bigint
$body$;

-- What the producer said; ids, times and trace context are left out.
create or replace function postroom.content_hash(
    topic text, payload bytea, content_type text, headers jsonb,
    aggregate_type text, aggregate_id text, ordering_key text, tenant_id text,
    correlation_id text, causation_id text, idempotency_key uuid, priority smallint
)
returns bytea
language sql
immutable
set search_path = pg_catalog, pg_temp
as $body$
    select sha256(
        postroom.length_prefixed($1)
        || postroom.length_prefixed($2)
        || postroom.length_prefixed(coalesce($3, 'application/json'))
        || postroom.length_prefixed($5)
        || postroom.length_prefixed($6)
        || postroom.length_prefixed($7)
        || postroom.length_prefixed($8)
        || postroom.length_prefixed($9)
        || postroom.length_prefixed($10)
        || postroom.length_prefixed(
            uuid_send(coalesce($11, '00000000-0000-0000-0000-000000000000'))
        )
        || postroom.length_prefixed(int2send($12))
        || coalesce(
            (
                select string_agg(
                    postroom.length_prefixed(key) || postroom.length_prefixed(value),
                    ''::bytea
                    order by key collate "C"
                )
                from jsonb_each_text($4)
                where key not in ('traceparent', 'tracestate')
            ),
            ''::bytea
        )
    )
$body$;

-- A short text must have at most so many characters, and no control characters where it ends up in
-- a protocol line.
create or replace function postroom.check_chars(
    field text, chars text, max_chars integer, protocol boolean
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
begin
    if char_length(chars) not between 1 and max_chars then
        raise exception '% must be 1 to % characters, got % characters',
            field, max_chars, char_length(chars)
            using errcode = 'invalid_parameter_value';
    end if;
    if protocol and chars ~ '[\u0001-\u001f\u007f-\u009f]' then
        raise exception '% must be free of control characters', field
            using errcode = 'invalid_parameter_value';
    end if;
end
$body$;

create or replace function postroom.check_headers(headers jsonb)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
declare
    header record;
    bytes bigint := 0;
begin
    if jsonb_typeof(headers) <> 'object' then
        raise exception 'headers must be a JSON object of strings'
            using errcode = 'invalid_parameter_value';
    end if;
    for header in select key, value, value #>> '{}' as chars from jsonb_each(headers) loop
        if jsonb_typeof(header.value) <> 'string' then
            raise exception 'headers must be a JSON object of strings'
                using errcode = 'invalid_parameter_value';
        end if;
        if header.key !~ '^[\u0021-\u007e]{1,128}$' then
            raise exception 'header name must be 1 to 128 characters of visible ASCII, got %',
                left(header.key, 64)
                using errcode = 'invalid_parameter_value';
        end if;
        if header.chars ~ '[\r\n]' then
            raise exception 'value of header % must be free of CR, LF and NUL', header.key
                using errcode = 'invalid_parameter_value';
        end if;
        bytes := bytes + octet_length(convert_to(header.key, 'UTF8'))
            + octet_length(convert_to(header.chars, 'UTF8'));
    end loop;
    if bytes > 16384 then
        raise exception 'headers must be at most 16384 bytes in all, got % bytes', bytes
            using errcode = 'invalid_parameter_value';
    end if;
end
$body$;

create or replace function postroom.outbox_run_append(
    timestamptz, uuid[], text[], bytea[], text[], text[],
    text[], text[], text[], text[], text[], text[],
    uuid[], bytea[], bytea[],
    timestamptz[], timestamptz[], bigint[], timestamptz[], bigint[],
    smallint[], smallint[], bigint[], bigint[], bigint[],
    uuid[], uuid[], bigint[],
    text[], text[], text[]
)
returns table (place bigint, seq bigint, inserted boolean, leased boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
#variable_conflict use_column
begin
return query
{{append.sql}};
end
$body$;

-- Publishes a message; answers with its id, or with the id of the first message with this key.
-- Write the arguments by name: select postroom.outbox_enqueue('order.placed', payload => '{}').
-- It has the rights of its owner, so that a producer needs none on the tables. All that it calls
-- is named with its schema or found in pg_catalog, whatever the caller's search path.
create or replace function postroom.outbox_enqueue(
    topic text,
    payload bytea,
    content_type text default null,
    headers jsonb default null,
    aggregate_type text default null,
    aggregate_id text default null,
    ordering_key text default null,
    tenant_id text default null,
    correlation_id text default null,
    causation_id text default null,
    idempotency_key uuid default null,
    occurred_at timestamptz default null,
    due_at timestamptz default null,
    expires_at timestamptz default null,
    priority integer default 0,
    id uuid default null,
    max_payload_bytes integer default 1048576
)
returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $body$
#variable_conflict use_column
declare
    named_content_type text := nullif($3, 'application/json');
    named_headers jsonb := nullif($4, '{}');
    correlation text := nullif($9, '');
    causation text := nullif($10, '');
    -- Time-ordered: milliseconds in front of a random UUID, version 7.
    message_id uuid := coalesce($16, encode(set_bit(set_bit(overlay(
        uuid_send(gen_random_uuid())
        placing substr(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint), 3)
        from 1 for 6
    ), 52, 1), 53, 1), 'hex')::uuid);
    lane bigint;
    key_row bytea;
    content bytea;
    written boolean;
    first_id uuid;
begin
    if $1 is null then
        raise exception 'topic must not be null' using errcode = 'invalid_parameter_value';
    end if;
    if $2 is null then
        raise exception 'payload must not be null' using errcode = 'invalid_parameter_value';
    end if;
    if octet_length($2) > $17 then
        raise exception 'payload must be at most % bytes (max_payload_bytes), got % bytes',
            $17, octet_length($2)
            using errcode = 'invalid_parameter_value';
    end if;
    if $15 is null or $15 not between -100 and 100 then
        raise exception 'priority must be -100 to 100, got %', $15
            using errcode = 'invalid_parameter_value';
    end if;
    perform
        postroom.check_chars('topic', $1, 255, true),
        postroom.check_chars('content_type', $3, 255, true),
        postroom.check_chars('aggregate_type', $5, 64, false),
        postroom.check_chars('aggregate_id', $6, 128, false),
        postroom.check_chars('ordering_key', $7, 255, false),
        postroom.check_chars('tenant_id', $8, 64, false),
        postroom.check_chars('correlation_id', correlation, 255, false),
        postroom.check_chars('causation_id', causation, 255, false);
    perform postroom.check_headers(named_headers);
    if $7 is not null then
        lane := postroom.hash64(postroom.length_prefixed($8) || postroom.length_prefixed($7));
    end if;
    if $11 is not null then
        key_row := sha256(
            postroom.length_prefixed($8) || postroom.length_prefixed(uuid_send($11))
        );
    end if;
    content := postroom.content_hash(
        $1, $2, $3, named_headers, $5, $6, $7, $8, correlation, causation, $11, $15::smallint
    );
    select run.inserted
    into written
    from postroom.outbox_run_append(
        null, array[message_id], array[$1], array[$2], array[named_content_type],
        array[named_headers::text], array[$5], array[$6], array[$7], array[$8],
        array[correlation], array[causation], array[$11], array[key_row], array[content],
        array[$12], array[$13], array[null::bigint], array[$14], array[null::bigint],
        array[$15::smallint],
        -- The slot is the last byte of the lane.
        array[(lane & 255)::smallint], array[lane],
        array[case when $8 is not null then postroom.hash64(postroom.length_prefixed($8)) end],
        array[postroom.hash64(postroom.length_prefixed($1))],
        array[null::uuid], array[null::uuid], array[null::bigint],
        array[null::text], array[null::text], array[null::text]
    ) as run;
    if written then
        return message_id;
    end if;
    -- A statement of its own: its snapshot sees the winner.
    select key.message_id
    into first_id
    from postroom.outbox_key as key
    where key.hash = key_row;
    if first_id <> message_id then
        return first_id;
    end if;
    select postroom.content_hash(
        stored.topic, stored.payload, stored.content_type, stored.headers, stored.aggregate_type,
        stored.aggregate_id, stored.ordering_key, stored.tenant_id, stored.correlation_id,
        stored.causation_id, stored.idempotency_key, stored.priority
    ) = content
    into written
    from postroom.outbox_message as stored
    where stored.id = message_id;
    if written or written is null and first_id = message_id then
        return message_id;
    end if;
    if written is null then
        raise exception 'a rival with the same key came and went; run the transaction again'
            using errcode = 'serialization_failure';
    end if;
    raise exception 'message id % belongs to a message with other content; use a fresh id',
        message_id
        using errcode = 'unique_violation';
end
$body$;

-- The same with a payload of text.
create or replace function postroom.outbox_enqueue(
    topic text,
    payload text,
    content_type text default null,
    headers jsonb default null,
    aggregate_type text default null,
    aggregate_id text default null,
    ordering_key text default null,
    tenant_id text default null,
    correlation_id text default null,
    causation_id text default null,
    idempotency_key uuid default null,
    occurred_at timestamptz default null,
    due_at timestamptz default null,
    expires_at timestamptz default null,
    priority integer default 0,
    id uuid default null,
    max_payload_bytes integer default 1048576
)
returns uuid
language sql
set search_path = pg_catalog, pg_temp
as $body$
    select postroom.outbox_enqueue(
        $1, convert_to($2, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10, $11,
        $12, $13, $14, $15, $16, $17
    )
$body$;

-- The same with a payload of JSON.
create or replace function postroom.outbox_enqueue(
    topic text,
    payload jsonb,
    content_type text default null,
    headers jsonb default null,
    aggregate_type text default null,
    aggregate_id text default null,
    ordering_key text default null,
    tenant_id text default null,
    correlation_id text default null,
    causation_id text default null,
    idempotency_key uuid default null,
    occurred_at timestamptz default null,
    due_at timestamptz default null,
    expires_at timestamptz default null,
    priority integer default 0,
    id uuid default null,
    max_payload_bytes integer default 1048576
)
returns uuid
language sql
set search_path = pg_catalog, pg_temp
as $body$
    select postroom.outbox_enqueue(
        $1, convert_to($2::text, 'UTF8'), $3, $4, $5, $6, $7, $8, $9, $10, $11,
        $12, $13, $14, $15, $16, $17
    )
$body$;
