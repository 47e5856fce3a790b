-- How many messages are in which state. $1 now.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
queue as materialized (
    select
        count(*) filter (where token is not null) as leased,
        count(*) filter (where token is null and locked_until > (select now from clock)) as waiting,
        count(*) filter (where token is null) as unleased,
        count(*) filter (where token is null and attempts > 0) as failed,
        min(seq) filter (
            where token is null
                and (locked_until is null or locked_until <= (select now from clock))
        ) as first_ready
    from postroom.outbox_queue
),
parked as materialized (
    select
        count(*) as unleased,
        count(*) filter (where wake_at > (select now from clock)) as waiting,
        count(*) filter (where attempts > 0) as failed,
        min(seq) filter (where wake_at <= (select now from clock)) as first_ready
    from postroom.outbox_parked
),
settled as materialized (
    select
        count(*) filter (where state = 1) as done,
        count(*) filter (where state = 2) as dead
    from postroom.outbox_settled
),
-- Places follow the time of writing closely enough, and the message need not be searched for.
oldest as (
    select id
    from postroom.outbox_queue
    where seq = (select first_ready from queue)
    union all
    select id
    from postroom.outbox_parked
    where seq = (select first_ready from parked)
)
select
    queue.unleased - queue.waiting + parked.unleased - parked.waiting as ready,
    queue.waiting + parked.waiting as waiting,
    queue.leased,
    queue.failed + parked.failed as failed,
    settled.done,
    settled.dead,
    (select now from clock) as now,
    (
        select min(created_at)
        from postroom.outbox_message
        where id = any(array(select id from oldest))
    ) as oldest_ready
from queue, parked, settled
