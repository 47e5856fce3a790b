-- The dead letters that died last, and the newest messages that will be tried again. Limit, twice.
select
    message.id,
    message.topic,
    found.reason,
    found.attempts,
    attempt.error,
    coalesce(found.settled_at, attempt.at, message.created_at) as at
from (
    (
        select seq, attempts, reason, settled_at
        from postroom_outbox_settled force index (ageing)
        where state = 2
            and reason <> 6
        order by settled_at desc, seq desc
        limit ?
    )
    union all
    (
        select seq, attempts, null, null
        from (
            select seq, attempts from postroom_outbox_queue where leased = 0 and attempts > 0
            union all
            select seq, attempts from postroom_outbox_ordered where leased = 0 and attempts > 0
            union all
            select seq, attempts from postroom_outbox_parked where attempts > 0
        ) as waiting
        order by seq desc
        limit ?
    )
) as found
straight_join postroom_outbox_message as message on message.seq = found.seq
left join postroom_outbox_attempt as attempt
    on attempt.id = message.id
    and attempt.n = (
        select max(last.n) from postroom_outbox_attempt as last where last.id = message.id
    )
order by at desc, message.id desc
