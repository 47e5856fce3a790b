-- When the next row that waits for its time is due, by bands: each is a range of the index. Now, as
-- often as there are bands.
select
    clock.now,
    (
        select min(parked.wake_at)
        from postroom_outbox_parked as parked
        where parked.band = 0 and parked.wake_at > clock.now
    ) as due_plain,
    (
        select min(parked.wake_at)
        from postroom_outbox_parked as parked
        where parked.band = 1000 and parked.wake_at > clock.now
    ) as due_ordered,
    (
        select min(parked.wake_at)
        from postroom_outbox_parked as parked
        where (parked.band between -100 and -1 or parked.band between 1 and 100)
            and parked.wake_at > clock.now
    ) as due_others
from (
    select coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)))
        as now
) as clock
