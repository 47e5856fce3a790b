-- What came due moves into the queue as leased, so that nothing becomes ready behind a claim's
-- back.
insert into postroom_outbox_queue (
  seq, id, slot, key_hash, tenant_hash, topic_hash, priority, token, owner, locked_until, attempts,
  lost, expires_at
)
select
  seq, id, slot, key_hash, tenant_hash, topic_hash, priority, ?2, ?3, ?4, attempts, lost,
  expires_at
from postroom_outbox_parked
where seq in (select value from json_each(?1))
