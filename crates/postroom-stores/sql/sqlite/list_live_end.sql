-- How far down a search among live rows looks: the last of so many.
-- ?1 status, as in list, ?2 highest place in the queue, ?3 how many before the last.
select id, seq
from (
  select * from (
    select id, seq from postroom_outbox_queue
    where ?1 <> 3 and seq <= ?2
    order by seq desc limit ?3 + 1
  )
  union all
  select * from (
    select id, seq from postroom_outbox_parked
    where ?1 <> 3 and seq <= ?2
    order by seq desc limit ?3 + 1
  )
  union all
  select * from (
    select id, seq from postroom_outbox_queue indexed by postroom_outbox_queue_failed
    where ?1 = 3 and attempts > 0 and seq <= ?2
    order by seq desc limit ?3 + 1
  )
  union all
  select * from (
    select id, seq from postroom_outbox_parked indexed by postroom_outbox_parked_failed
    where ?1 = 3 and attempts > 0 and seq <= ?2
    order by seq desc limit ?3 + 1
  )
)
order by seq desc
limit 1 offset ?3
