-- Messages with their delivery state. Whether with their payloads, ["id", ...].
select
    message.seq,
    message.created_at,
    message.id,
    message.topic,
    case when ? then message.payload else x'' end as payload,
    length(message.payload) as payload_bytes,
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
from json_table(?, '$[*]' columns (id varchar(32) path '$')) as wanted
straight_join postroom_outbox_message as message on message.id = unhex(wanted.id)
left join postroom_outbox_queue as queue on queue.seq = message.seq
left join postroom_outbox_ordered as ordered on ordered.seq = message.seq
left join postroom_outbox_parked as parked on parked.seq = message.seq
left join postroom_outbox_settled as settled on settled.seq = message.seq
