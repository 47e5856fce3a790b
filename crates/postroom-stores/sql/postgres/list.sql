-- The ids of one page of messages, newest first; list_live has those of live rows.
-- $1 status (1 pending, 2 leased, 3 failed, 4 done, 5 dead), $2 topic, $3 start of the topic,
-- $4 tenant, $5 type and $6 id of the aggregate, $7 ordering key, $8 written since and $9 before,
-- $10 part of the last error, $11 least attempts, $12 reason; null filters nothing.
-- $13 oldest id, $14 newest id, $15 limit, $16 how many messages to look at, $17 where: 1 among all
-- messages, 2 dead letters, 3 those of the aggregate, 4 those of the ordering key.
select message.id
from (
    -- One of the four is run. Each has the order of its index, so that all stops at the limit.
    (
        select
            id, seq, created_at, topic, tenant_id, aggregate_type, aggregate_id, ordering_key
        from postroom.outbox_message
        where $17::smallint = 1
            and id >= $13::uuid
            and id <= $14::uuid
        order by id desc
        limit $16::integer
    )
    union all
    (
        select
            dead.id, message.seq, message.created_at, message.topic, message.tenant_id,
            message.aggregate_type, message.aggregate_id, message.ordering_key
        from (
            -- What a settled row and its last attempt tell comes first: messages of dead letters
            -- lie far from each other.
            select id
            from postroom.outbox_settled as settled
            where $17 = 2
                and state = 2
                and id >= $13
                and id <= $14
                and ($11::integer is null or attempts >= $11)
                and ($12::smallint is null or reason = $12)
                and ($10::text is null or strpos((
                    select error
                    from postroom.outbox_attempt
                    where id = settled.id
                    order by n desc
                    limit 1
                ), $10) > 0)
            order by id desc
            limit $16
        ) as dead
        cross join lateral (
            select * from postroom.outbox_message where id = dead.id limit 1
        ) as message
        order by dead.id desc
    )
    union all
    (
        select
            id, seq, created_at, topic, tenant_id, aggregate_type, aggregate_id, ordering_key
        from postroom.outbox_message
        where $17 = 3
            and aggregate_type = $5::text
            and aggregate_id = $6::text
            and id >= $13
            and id <= $14
        order by id desc
        limit $16
    )
    union all
    (
        select
            id, seq, created_at, topic, tenant_id, aggregate_type, aggregate_id, ordering_key
        from postroom.outbox_message
        where $17 = 4
            and ordering_key = $7::text
            and id >= $13
            and id <= $14
        order by id desc
        limit $16
    )
) as message
-- A limit keeps this order of tables, also in a plan that knows no argument. Who is settled is not
-- looked for among live rows.
left join lateral (
    select * from postroom.outbox_settled where seq = message.seq limit 1
) as settled on true
left join lateral (
    select * from postroom.outbox_queue where seq = message.seq and settled.seq is null limit 1
) as queue on true
left join lateral (
    select * from postroom.outbox_parked where seq = message.seq and settled.seq is null limit 1
) as parked on true
where ($2::text is null or message.topic = $2)
    and ($3::text is null or starts_with(message.topic, $3))
    and ($4::text is null or message.tenant_id = $4)
    and ($5 is null or message.aggregate_type = $5)
    and ($6 is null or message.aggregate_id = $6)
    and ($7 is null or message.ordering_key = $7)
    and ($8::timestamptz is null or message.created_at >= $8)
    and ($9::timestamptz is null or message.created_at < $9)
    and ($11 is null or coalesce(settled.attempts, queue.attempts, parked.attempts, 0) >= $11)
    and ($12 is null or settled.reason = $12)
    and case $1::smallint
        when 1 then settled.seq is null and queue.token is null
        when 2 then settled.seq is null and queue.token is not null
        when 3 then settled.seq is null and queue.token is null
            and coalesce(queue.attempts, parked.attempts) > 0
        when 4 then settled.state = 1
        when 5 then settled.state = 2
        else true
    end
    -- The error of a done message is history, not its last one.
    and ($10 is null or settled.state is distinct from 1 and strpos((
        select error from postroom.outbox_attempt where id = message.id order by n desc limit 1
    ), $10) > 0)
order by message.id desc
limit $15::integer
