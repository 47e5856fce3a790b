-- What is not delivered, by topic. $1 limit.
with
live as materialized (
    select
        topic_hash,
        count(*) as live,
        count(*) filter (where token is null and attempts > 0) as failed,
        -- One of them, to know the topic by.
        min(seq) as seq
    from (
        select topic_hash, token, attempts, seq from postroom.outbox_queue
        union all
        select topic_hash, null, attempts, seq from postroom.outbox_parked
    ) as place
    group by topic_hash
),
counted as (
    select message.topic, live.live, live.failed, 0 as dead
    from live
    cross join lateral (
        (select id from postroom.outbox_queue where seq = live.seq limit 1)
        union all
        (select id from postroom.outbox_parked where seq = live.seq limit 1)
    ) as place
    -- A limit keeps this order of tables, also in a plan that knows no argument.
    cross join lateral (
        select topic from postroom.outbox_message where id = place.id limit 1
    ) as message
    union all
    select message.topic, 0, 0, 1
    from postroom.outbox_settled as settled
    cross join lateral (
        select topic from postroom.outbox_message where id = settled.id limit 1
    ) as message
    where settled.state = 2
        and settled.reason <> 6
)
select
    topic,
    sum(live)::bigint as live,
    sum(failed)::bigint as failed,
    sum(dead)::bigint as dead
from counted
group by topic
order by sum(live) + sum(dead) desc, topic collate "C"
limit $1::bigint
