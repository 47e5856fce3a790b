-- When the next row that waits in the parking place is due, by bands: each has its index.
-- ?1 now.
select min(due)
from (
  select min(wake_at) as due
  from postroom_outbox_parked
  where priority > 0 and wake_at > ?1
  union all
  select min(wake_at)
  from postroom_outbox_parked
  where priority = 0 and wake_at > ?1
  union all
  select min(wake_at)
  from postroom_outbox_parked
  where priority < 0 and wake_at > ?1
)
