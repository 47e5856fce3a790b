-- Messages that nobody holds and that must not be delivered any more.
select seq, 0 as parked, attempts, lost
from postroom_outbox_queue
where slot is null
  and token is null
  and expires_at <= ?1
union all
select seq, 1, attempts, lost
from postroom_outbox_parked
where slot is null
  and expires_at <= ?1
limit ?2
