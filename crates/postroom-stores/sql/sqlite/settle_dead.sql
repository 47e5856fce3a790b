-- Dead.
insert into postroom_outbox_settled (seq, id, state, reason, settled_at, settled_by, attempts, lost)
select
  q.seq, q.id, 2, item.value ->> 'reason', ?2, ?3, q.attempts + (item.value ->> 'counted'), q.lost
from json_each(?1) item
join postroom_outbox_queue q on q.seq = item.value ->> 'seq'
where item.value ->> 'reason' is not null
