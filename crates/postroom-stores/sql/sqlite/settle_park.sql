-- An unordered retry waits among the parked rows.
insert into postroom_outbox_parked (
  seq, id, slot, key_hash, tenant_hash, topic_hash, priority, wake_at, attempts, lost, expires_at
)
select
  q.seq, q.id, q.slot, q.key_hash, q.tenant_hash, q.topic_hash, q.priority,
  item.value ->> 'wake_at', q.attempts + (item.value ->> 'counted'), q.lost, q.expires_at
from json_each(?1) item
join postroom_outbox_queue q on q.seq = item.value ->> 'seq'
where item.value ->> 'wake_at' is not null
  and q.slot is null
