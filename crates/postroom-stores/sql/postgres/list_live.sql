-- The ids of one page of live messages, the last place in the queue first.
-- Arguments as in list, but $13 lowest place, $14 highest place; there is no $17.
select live.id, live.seq
from (
    -- The first three are run, or the others for those that failed. Each has the order of its
    -- index, so that all stops at the limit.
    (
        select id, seq, attempts, token
        from postroom.outbox_queue_plain
        where $1::smallint <> 3
            and seq >= $13::bigint
            and seq <= $14::bigint
        order by seq desc
        limit $16::integer
    )
    union all
    (
        select id, seq, attempts, token
        from postroom.outbox_queue_ordered
        where $1 <> 3
            and seq >= $13
            and seq <= $14
        order by seq desc
        limit $16
    )
    union all
    (
        select id, seq, attempts, null::uuid as token
        from postroom.outbox_parked
        where $1 <> 3
            and seq >= $13
            and seq <= $14
        order by seq desc
        limit $16
    )
    union all
    (
        select id, seq, attempts, token
        from postroom.outbox_queue_plain
        where $1 = 3
            and attempts > 0
            and seq >= $13
            and seq <= $14
        order by seq desc
        limit $16
    )
    union all
    (
        select id, seq, attempts, token
        from postroom.outbox_queue_ordered
        where $1 = 3
            and attempts > 0
            and seq >= $13
            and seq <= $14
        order by seq desc
        limit $16
    )
    union all
    (
        select id, seq, attempts, null::uuid as token
        from postroom.outbox_parked
        where $1 = 3
            and attempts > 0
            and seq >= $13
            and seq <= $14
        order by seq desc
        limit $16
    )
) as live
cross join lateral (
    select * from postroom.outbox_message where id = live.id limit 1
) as message
where case $1
        when 2 then live.token is not null
        else live.token is null
    end
    and ($2::text is null or message.topic = $2)
    and ($3::text is null or starts_with(message.topic, $3))
    and ($4::text is null or message.tenant_id = $4)
    and ($5::text is null or message.aggregate_type = $5)
    and ($6::text is null or message.aggregate_id = $6)
    and ($7::text is null or message.ordering_key = $7)
    and ($8::timestamptz is null or message.created_at >= $8)
    and ($9::timestamptz is null or message.created_at < $9)
    and ($10::text is null or strpos((
        select error from postroom.outbox_attempt where id = live.id order by n desc limit 1
    ), $10) > 0)
    and ($11::integer is null or live.attempts >= $11)
    -- Nothing that lives has a reason.
    and $12::smallint is null
order by live.seq desc
limit $15::integer
