-- What is not delivered, by topic. Limit.
with
live as (
    select
        topic_hash,
        count(*) as live,
        sum(leased = 0 and attempts > 0) as failed,
        -- One of them, to know the topic by.
        min(seq) as seq
    from (
        select topic_hash, leased, attempts, seq from postroom_outbox_queue
        union all
        select topic_hash, leased, attempts, seq from postroom_outbox_ordered
        union all
        select topic_hash, 0, attempts, seq from postroom_outbox_parked
    ) as place
    group by topic_hash
),
counted as (
    select message.topic, live.live, live.failed, 0 as dead
    from live
    straight_join postroom_outbox_message as message on message.seq = live.seq
    union all
    select message.topic, 0, 0, 1
    from postroom_outbox_settled as settled force index (ageing)
    straight_join postroom_outbox_message as message on message.seq = settled.seq
    where settled.state = 2
        and settled.reason <> 6
)
select
    topic,
    cast(sum(live) as signed) as live,
    cast(sum(failed) as signed) as failed,
    cast(sum(dead) as signed) as dead
from counted
group by topic
order by sum(live) + sum(dead) desc, topic
limit ?
