-- The box as a person reads it in a SQL shell. Each migration replaces this, adding columns only.

-- The text of a payload, if it is one.
create or replace function postroom.payload_text(payload bytea)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $body$
begin
    return convert_from(payload, 'UTF8');
exception
    when others then
        return null;
end
$body$;

create or replace view postroom.outbox as
select
    message.id,
    message.seq,
    message.topic,
    message.aggregate_type,
    message.aggregate_id,
    message.tenant_id,
    case
        when settled.state = 1 then 'done'
        when settled.state = 2 then 'dead'
        when queue.token is not null then 'leased'
        when coalesce(parked.wake_at, queue.locked_until) > clock_timestamp() then 'waiting'
        else 'ready'
    end as status,
    coalesce(settled.attempts, queue.attempts, parked.attempts, 0) as retry_count,
    coalesce(settled.lost, queue.lost, parked.lost, 0) as lost_leases,
    message.created_at,
    message.due_at,
    coalesce(parked.wake_at, case when queue.token is null then queue.locked_until end)
        as next_attempt_at,
    case when queue.token is not null then queue.locked_until end as locked_until,
    queue.owner as owner_token,
    settled.settled_at as processed_at,
    settled.settled_by as processed_by,
    case settled.reason
        when 1 then 'attempts used up'
        when 2 then 'permanent error'
        when 3 then 'lost leases'
        when 4 then 'expired'
        when 5 then 'undecodable'
        when 6 then 'discarded'
    end as dead_reason,
    case
        when settled.state is distinct from 1 then (
            select attempt.error
            from postroom.outbox_attempt as attempt
            where attempt.id = message.id
            order by attempt.n desc
            limit 1
        )
    end as last_error,
    postroom.payload_text(message.payload) as payload_text
from postroom.outbox_message as message
left join postroom.outbox_queue as queue
    on queue.seq = message.seq
left join postroom.outbox_parked as parked
    on parked.seq = message.seq
left join postroom.outbox_settled as settled
    on settled.seq = message.seq;
