-- The dead letters that died last, and the newest messages that will be tried again. $1 limit.
with
dead as materialized (
    select id, attempts, reason, settled_at
    from postroom.outbox_settled
    where state = 2
        and reason <> 6
    order by settled_at desc, seq desc
    limit $1::bigint
),
waiting as materialized (
    select id, attempts
    from (
        select seq, id, attempts
        from postroom.outbox_queue
        where token is null
            and attempts > 0
        union all
        select seq, id, attempts
        from postroom.outbox_parked
        where attempts > 0
    ) as live
    order by seq desc
    limit $1
)
select
    message.id,
    message.topic,
    found.reason,
    found.attempts,
    attempt.error,
    coalesce(found.settled_at, attempt.at, message.created_at) as at
from (
    select id, attempts, reason, settled_at from dead
    union all
    select id, attempts, null, null from waiting
) as found
cross join lateral (
    select id, topic, created_at from postroom.outbox_message where id = found.id limit 1
) as message
left join lateral (
    select at, error from postroom.outbox_attempt where id = found.id order by n desc limit 1
) as attempt on true
order by at desc, message.id desc
