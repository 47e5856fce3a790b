-- The history of counted attempts that ended badly.
insert into postroom_outbox_attempt (id, n, at, by_owner, kind, error)
select
  q.id,
  (select coalesce(max(a.n), 0) + 1 from postroom_outbox_attempt a where a.id = q.id),
  ?2, ?3, 1, item.value ->> 'error'
from json_each(?1) item
join postroom_outbox_queue q on q.seq = item.value ->> 'seq'
where item.value ->> 'counted' = 1
