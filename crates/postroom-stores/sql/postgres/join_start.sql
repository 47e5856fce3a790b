-- Starts a join, unless its id is taken. $1 now, $2 id, $3 members expected, $4 content hash; then
-- one array per field, an element per follow-up. Answers whether it is new.
with
started as (
    insert into postroom.join_tally (id, state, expected, created_at, content_hash)
    values ($2::uuid, 0, $3::integer, coalesce($1::timestamptz, clock_timestamp()), $4::bytea)
    on conflict (id) do nothing
    returning id
),
prepared as (
    insert into postroom.join_follow_up (
        join_id, state, id, topic, payload, content_type, headers,
        aggregate_type, aggregate_id, ordering_key, tenant_id, correlation_id, causation_id,
        priority, slot, key_hash, tenant_hash, topic_hash
    )
    select
        started.id, given.state, given.id, topic, payload, content_type, headers::jsonb,
        aggregate_type, aggregate_id, ordering_key, tenant_id, correlation_id, causation_id,
        priority, slot, key_hash, tenant_hash, topic_hash
    from started
    cross join unnest(
        $5::smallint[], $6::uuid[], $7::text[], $8::bytea[], $9::text[], $10::text[],
        $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[],
        $17::smallint[], $18::smallint[], $19::bigint[], $20::bigint[], $21::bigint[]
    ) as given (
        state, id, topic, payload, content_type, headers,
        aggregate_type, aggregate_id, ordering_key, tenant_id, correlation_id, causation_id,
        priority, slot, key_hash, tenant_hash, topic_hash
    )
)
select exists (select from started) as is_new
