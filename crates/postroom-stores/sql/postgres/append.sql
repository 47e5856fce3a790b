-- Writes messages: keys, rows and places in the queue, in publish order.
-- $1 now; then one array per field, an element per message.
-- Answers for what it tried to write: place in the list, seq, whether it is new, whether leased.
-- A message whose key is taken has no answer.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
entry as materialized (
    select
        given.*,
        (select now from clock) as now,
        -- A distance counts from the database's present; nothing lies beyond the year 9999.
        case
            when due_micros is null then due_given
            else least(
                (select now from clock) + due_micros * interval '1 microsecond',
                timestamptz '9999-12-31 23:59:59+00'
            )
        end as due_at,
        case
            when expires_micros is null then expires_given
            else least(
                (select now from clock) + expires_micros * interval '1 microsecond',
                timestamptz '9999-12-31 23:59:59+00'
            )
        end as expires_at
    from unnest(
        $2::uuid[], $3::text[], $4::bytea[], $5::text[], $6::text[],
        $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
        $13::uuid[], $14::bytea[], $15::bytea[],
        $16::timestamptz[], $17::timestamptz[], $18::bigint[], $19::timestamptz[], $20::bigint[],
        $21::smallint[], $22::smallint[], $23::bigint[], $24::bigint[], $25::bigint[],
        $26::uuid[], $27::uuid[], $28::bigint[],
        $29::text[], $30::text[], $31::text[]
    ) with ordinality as given (
        id, topic, payload, content_type, headers,
        aggregate_type, aggregate_id, ordering_key, tenant_id, correlation_id, causation_id,
        idempotency_key, key_row, content_hash,
        occurred_at, due_given, due_micros, expires_given, expires_micros,
        priority, slot, key_hash, tenant_hash, topic_hash,
        owner, token, lease_micros,
        source, source_id, consumer,
        place
    )
),
control as materialized (
    select
        array(
            select topic_hash from postroom.outbox_control where coalesce(topic, '') > ''
        ) as topics,
        not exists (
            select from postroom.outbox_control where coalesce(topic, '') = ''
        ) as is_open
),
-- In the order of the hash, so that two flushes with the same keys do not deadlock.
key_won as (
    insert into postroom.outbox_key (hash, created_at, message_id, content_hash)
    select key_row, now, id, content_hash
    from entry
    where key_row is not null
    order by key_row
    on conflict (hash) do nothing
    returning hash
),
winner as materialized (
    select
        nextval('postroom.outbox_seq') as seq,
        first.*,
        owner is not null
            and slot is null
            and (due_at is null or due_at <= now)
            -- Nothing of a paused topic is born leased.
            and (select is_open from control)
            and topic_hash <> all((select topics from control)::bigint[]) as leased
    from (
        select *
        from entry
        where key_row is null
            or key_row in (select hash from key_won)
        order by place
    ) as first
),
written as (
    insert into postroom.outbox_message (
        id, seq, occurred_at, created_at, due_at, expires_at, idempotency_key, priority,
        topic, content_type, aggregate_type, aggregate_id, ordering_key, tenant_id,
        correlation_id, causation_id, headers, payload, source, source_id, consumer
    )
    select
        id, seq, coalesce(occurred_at, now), now, due_at, expires_at, idempotency_key, priority,
        topic, content_type, aggregate_type, aggregate_id, ordering_key, tenant_id,
        correlation_id, causation_id, headers::jsonb, payload, source, source_id, consumer
    from winner
    on conflict (id) do nothing
    returning id
),
-- "is true" keeps the test a hashed lookup: as a join its plan would hang on a guessed row count.
queued as (
    insert into postroom.outbox_queue (
        seq, topic_hash, key_hash, tenant_hash, locked_until, expires_at,
        id, token, owner, attempts, lost, slot, priority
    )
    select
        seq, topic_hash, key_hash, tenant_hash,
        case when leased then now + lease_micros * interval '1 microsecond' end,
        expires_at,
        id,
        case when leased then token end,
        case when leased then owner end,
        0, 0, slot, priority
    from winner
    where (due_at is null or due_at <= now)
        and (id in (select id from written)) is true
),
parked as (
    insert into postroom.outbox_parked (
        seq, topic_hash, key_hash, tenant_hash, wake_at, expires_at,
        id, attempts, lost, slot, priority
    )
    select
        seq, topic_hash, key_hash, tenant_hash, due_at, expires_at,
        id, 0, 0, slot, priority
    from winner
    where due_at > now
        and (id in (select id from written)) is true
)
select
    place,
    seq,
    id in (select id from written) as inserted,
    leased
from winner
