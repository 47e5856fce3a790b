-- One page of messages, newest first.
-- $1 status (1 pending, 2 leased, 3 failed, 4 done, 5 dead), $2 topic, $3 tenant, $4 older than
-- this id, $5 limit; null filters nothing.
select
    message.id,
    message.seq,
    message.created_at,
    message.topic,
    message.payload,
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
where ($4::uuid is null or message.id < $4)
    and ($2::text is null or message.topic = $2)
    and ($3::text is null or message.tenant_id = $3)
    and case $1::smallint
        when 1 then settled.seq is null and queue.token is null
        when 2 then settled.seq is null and queue.token is not null
        when 3 then settled.seq is null and queue.token is null
            and coalesce(queue.attempts, parked.attempts) > 0
        when 4 then settled.state = 1
        when 5 then settled.state = 2
        else true
    end
order by message.id desc
limit $5::integer
