-- How many messages are in which state. Now.
with
clock as (
    select coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)))
        as now
),
live as (
    select seq, leased, attempts, 0 as wake_at
    from postroom_outbox_queue
    union all
    select seq, leased, attempts, locked_until
    from postroom_outbox_ordered
    union all
    select seq, 0, attempts, wake_at
    from postroom_outbox_parked
),
counted as (
    select
        sum(leased = 0 and wake_at <= clock.now) as ready,
        sum(leased = 0 and wake_at > clock.now) as waiting,
        sum(leased) as leased,
        sum(leased = 0 and attempts > 0) as failed,
        min(case when leased = 0 and wake_at <= clock.now then seq end) as first_ready
    from live
    cross join clock
)
select
    cast(coalesce(counted.ready, 0) as signed) as ready,
    cast(coalesce(counted.waiting, 0) as signed) as waiting,
    cast(coalesce(counted.leased, 0) as signed) as leased,
    cast(coalesce(counted.failed, 0) as signed) as failed,
    (select count(*) from postroom_outbox_settled where state = 1) as done,
    (select count(*) from postroom_outbox_settled where state = 2) as dead,
    clock.now,
    -- Places follow the time of writing closely enough.
    (
        select created_at from postroom_outbox_message where seq = counted.first_ready
    ) as oldest_ready
from counted
cross join clock
