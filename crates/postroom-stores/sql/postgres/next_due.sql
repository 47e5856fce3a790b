-- When the next row that waits in the parking place is due, by bands: each has its index.
-- $1 now.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
)
select
    (select now from clock) as now,
    least(
        (
            select min(wake_at)
            from postroom.outbox_parked
            where slot is null and priority > 0 and wake_at > (select now from clock)
        ),
        (
            select min(wake_at)
            from postroom.outbox_parked
            where slot is null and priority = 0 and wake_at > (select now from clock)
        ),
        (
            select min(wake_at)
            from postroom.outbox_parked
            where slot is null and priority < 0 and wake_at > (select now from clock)
        ),
        (
            select min(wake_at)
            from postroom.outbox_parked
            where slot is not null and wake_at > (select now from clock)
        )
    ) as due
