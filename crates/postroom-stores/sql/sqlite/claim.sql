-- What may be claimed now, in claim order, each band bounded so that no more is read than needed:
-- higher priority first; within a priority what waited for its time, then by place in the queue. ?1
-- now, ?2 batch, ?3 suspects, ?4 hashes of topics left out, or null. Ordered rows (slot is not
-- null) belong to the owners of their slots: an index of their own keeps the others apart from
-- them.
with
parked_rows as (
  select * from (
    select * from postroom_outbox_parked
    where priority > 0 and slot is null and wake_at <= ?1 and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, wake_at, seq limit ?2)
  union all
  select * from (
    select * from postroom_outbox_parked
    where priority = 0 and slot is null and wake_at <= ?1 and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by wake_at, seq limit ?2)
  union all
  select * from (
    select * from postroom_outbox_parked
    where priority < 0 and slot is null and wake_at <= ?1 and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, wake_at, seq limit ?2)
  union all
  -- Suspects are few, have an index of their own, and at most ?3 of them are taken.
  select * from (
    select * from postroom_outbox_parked
    where lost > 0 and slot is null and wake_at <= ?1
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, wake_at, seq limit ?3)
),
fresh_rows as materialized (
  select * from (
    select * from postroom_outbox_queue
    where priority > 0 and slot is null and token is null and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, seq limit ?2)
  union all
  select * from (
    select * from postroom_outbox_queue indexed by postroom_outbox_queue_plain
    where priority = 0 and slot is null and token is null and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by seq limit ?2)
  union all
  select * from (
    select * from postroom_outbox_queue
    where priority < 0 and slot is null and token is null and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, seq limit ?2)
),
suspect_rows as (
  select * from (
    select * from postroom_outbox_queue
    where lost > 0 and slot is null and (token is null or locked_until <= ?1)
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, seq limit ?3)
  union all
  select * from (
    select * from postroom_outbox_queue
    where priority > 0 and lost = 0 and slot is null and token is not null
      and locked_until <= ?1
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, seq limit ?3)
  union all
  select * from (
    select * from postroom_outbox_queue
    where priority < 0 and lost = 0 and slot is null and token is not null
      and locked_until <= ?1
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, seq limit ?3)
  union all
  select * from (
    select * from postroom_outbox_queue indexed by postroom_outbox_queue_plain
    where priority = 0 and lost = 0 and slot is null and token is not null
      and locked_until <= ?1
      -- Leased rows lie below the backlog: with a full batch of fresh rows, look no further.
      and seq < coalesce(
        (select max(seq) from fresh_rows where priority = 0 having count(*) = ?2),
        9223372036854775807)
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by seq limit ?3)
)
select
  seq, 1 as parked, lost > 0 as suspect, null as lost_by, priority, wake_at, attempts, lost,
  expires_at
from parked_rows
union all
select seq, 0, 0, null, priority, null, attempts, lost, expires_at
from fresh_rows
union all
select seq, 0, 1, owner, priority, null, attempts, lost, expires_at
from suspect_rows
order by 5 desc, 2 desc, 6, 1
