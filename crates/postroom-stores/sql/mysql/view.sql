-- The box as a person reads it in a SQL shell. Each migration replaces this, adding columns only.
create or replace view postroom_outbox as
select
    insert(insert(insert(insert(
        lower(hex(message.id)), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-') as id,
    message.seq,
    convert(message.topic using utf8mb4) as topic,
    convert(message.aggregate_type using utf8mb4) as aggregate_type,
    convert(message.aggregate_id using utf8mb4) as aggregate_id,
    convert(message.tenant_id using utf8mb4) as tenant_id,
    case
        when settled.state = 1 then 'done'
        when settled.state = 2 then 'dead'
        when coalesce(queue.leased, line.leased) = 1 then 'leased'
        when coalesce(parked.wake_at, line.locked_until) > timestampdiff(
            microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)
        ) then 'waiting'
        else 'ready'
    end as status,
    coalesce(settled.attempts, queue.attempts, line.attempts, parked.attempts, 0) as retry_count,
    coalesce(settled.lost, queue.lost, line.lost, parked.lost, 0) as lost_leases,
    timestampadd(microsecond, message.created_at, timestamp'1970-01-01 00:00:00') as created_at,
    timestampadd(microsecond, message.due_at, timestamp'1970-01-01 00:00:00') as due_at,
    timestampadd(
        microsecond,
        coalesce(parked.wake_at, case when line.leased = 0 then nullif(line.locked_until, 0) end),
        timestamp'1970-01-01 00:00:00'
    ) as next_attempt_at,
    timestampadd(
        microsecond,
        case
            when queue.leased = 1 then queue.locked_until
            when line.leased = 1 then line.locked_until
        end,
        timestamp'1970-01-01 00:00:00'
    ) as locked_until,
    insert(insert(insert(insert(
        lower(hex(case
            when queue.leased = 1 then queue.owner
            when line.leased = 1 then line.owner
        end)), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-') as owner_token,
    timestampadd(microsecond, settled.settled_at, timestamp'1970-01-01 00:00:00') as processed_at,
    insert(insert(insert(insert(
        lower(hex(settled.settled_by)), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-')
        as processed_by,
    case settled.reason
        when 1 then 'attempts used up'
        when 2 then 'permanent error'
        when 3 then 'lost leases'
        when 4 then 'expired'
        when 5 then 'undecodable'
        when 6 then 'discarded'
    end as dead_reason,
    case
        when settled.state is null or settled.state <> 1 then (
            select convert(attempt.error using utf8mb4)
            from postroom_outbox_attempt as attempt
            where attempt.id = message.id
            order by attempt.n desc
            limit 1
        )
    end as last_error,
    -- What is not UTF-8 comes out changed or as null.
    case
        when cast(convert(message.payload using utf8mb4) as binary) = message.payload
            then convert(message.payload using utf8mb4)
    end as payload_text
from postroom_outbox_message as message
left join postroom_outbox_queue as queue
    on queue.seq = message.seq
left join postroom_outbox_ordered as line
    on line.seq = message.seq
left join postroom_outbox_parked as parked
    on parked.seq = message.seq
left join postroom_outbox_settled as settled
    on settled.seq = message.seq;
