-- What is there already, for messages that were not written.
-- $1 ids, $2 key rows (null for none). A statement of its own: its snapshot sees the winner.
select
    wanted.place,
    taken.message_id as key_message_id,
    taken.content_hash as key_content,
    there.id,
    there.topic,
    there.payload,
    there.content_type,
    there.headers::text as headers,
    there.aggregate_type,
    there.aggregate_id,
    there.ordering_key,
    there.tenant_id,
    there.correlation_id,
    there.causation_id,
    there.idempotency_key,
    there.occurred_at,
    there.due_at,
    there.expires_at,
    there.priority,
    there.source,
    there.source_id,
    there.consumer
from unnest($1::uuid[], $2::bytea[]) with ordinality as wanted (id, key_row, place)
left join lateral (
    select message_id, content_hash
    from postroom.outbox_key
    where hash = wanted.key_row
    limit 1
) as taken on true
left join lateral (
    select *
    from postroom.outbox_message
    where id = wanted.id
    limit 1
) as there on true
