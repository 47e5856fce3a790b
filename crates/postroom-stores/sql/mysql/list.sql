-- One page of messages, newest first. Older than this id (twice), topic (twice), tenant (twice),
-- status (1 pending, 2 leased, 3 failed, 4 done, 5 dead), limit; null filters nothing.
select
    message.seq,
    message.created_at,
    message.id,
    message.topic,
    message.payload,
    message.content_type,
    message.headers,
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
    coalesce(settled.attempts, queue.attempts, ordered.attempts, parked.attempts, 0) as attempts,
    coalesce(settled.lost, queue.lost, ordered.lost, parked.lost, 0) as lost,
    coalesce(
        parked.wake_at,
        case when ordered.leased = 0 and ordered.locked_until > 0 then ordered.locked_until end
    ) as next_attempt_at,
    case
        when queue.leased = 1 then queue.locked_until
        when ordered.leased = 1 then ordered.locked_until
    end as locked_until,
    case
        when queue.leased = 1 then queue.owner
        when ordered.leased = 1 then ordered.owner
    end as owner,
    case
        when coalesce(settled.state, 0) <> 1 then (
            select error
            from postroom_outbox_attempt as attempt
            where attempt.id = message.id
            order by n desc
            limit 1
        )
    end as last_error
from postroom_outbox_message as message force index (id)
left join postroom_outbox_queue as queue on queue.seq = message.seq
left join postroom_outbox_ordered as ordered on ordered.seq = message.seq
left join postroom_outbox_parked as parked on parked.seq = message.seq
left join postroom_outbox_settled as settled on settled.seq = message.seq
where (? is null or message.id < ?)
    and (? is null or message.topic = ?)
    and (? is null or message.tenant_id = ?)
    and case ?
        when 1 then settled.seq is null
            and coalesce(queue.leased, ordered.leased, 0) = 0
        when 2 then settled.seq is null
            and coalesce(queue.leased, ordered.leased, 0) = 1
        when 3 then settled.seq is null
            and coalesce(queue.leased, ordered.leased, 0) = 0
            and coalesce(queue.attempts, ordered.attempts, parked.attempts) > 0
        when 4 then settled.state = 1
        when 5 then settled.state = 2
        else true
    end
order by message.id desc
limit ?
