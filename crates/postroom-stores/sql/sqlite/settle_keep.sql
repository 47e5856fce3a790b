-- Stays in the queue: a release, or an ordered retry, which keeps its place.
update postroom_outbox_queue as q
set token = null,
    owner = null,
    locked_until = item.wake_at,
    attempts = q.attempts + item.counted
from (
  select value ->> 'seq' as seq, value ->> 'wake_at' as wake_at, value ->> 'counted' as counted
  from json_each(?1)
  where value ->> 'reason' is null
) as item
where q.seq = item.seq
  and (item.wake_at is null or q.slot is not null)
