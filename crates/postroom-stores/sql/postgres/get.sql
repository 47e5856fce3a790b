-- Messages with their delivery state. $1 ids, $2 whether with their payloads.
select
    message.id,
    message.seq,
    message.created_at,
    message.topic,
    case when $2::boolean then message.payload else '' end as payload,
    octet_length(message.payload)::bigint as payload_bytes,
    message.content_type,
    message.headers::text as headers,
    message.aggregate_type,
    message.aggregate_id,
    message.ordering_key,
    message.tenant_id,
    message.correlation_id,
    message.causation_id,
    message.idempotency_key,
    message.occurred_at,
    message.due_at,
    message.expires_at,
    message.priority,
    message.source,
    message.source_id,
    message.consumer,
    settled.state as settled,
    settled.reason,
    settled.settled_at,
    settled.settled_by,
    coalesce(settled.attempts, queue.attempts, parked.attempts, 0) as attempts,
    coalesce(settled.lost, queue.lost, parked.lost, 0) as lost,
    coalesce(parked.wake_at, case when queue.token is null then queue.locked_until end)
        as next_attempt_at,
    case when queue.token is not null then queue.locked_until end as locked_until,
    queue.owner,
    case when settled.state is distinct from 1 then attempt.error end as last_error
from postroom.outbox_message as message
left join lateral (
    select * from postroom.outbox_queue where seq = message.seq limit 1
) as queue on true
left join lateral (
    select * from postroom.outbox_parked where seq = message.seq limit 1
) as parked on true
left join lateral (
    select * from postroom.outbox_settled where seq = message.seq limit 1
) as settled on true
left join lateral (
    select error from postroom.outbox_attempt where id = message.id order by n desc limit 1
) as attempt on true
where message.id = any($1::uuid[])
