-- The places of new messages that are due later.
insert into postroom_outbox_parked (
  seq, id, slot, key_hash, tenant_hash, topic_hash, priority, wake_at, expires_at
)
select
  value ->> 'seq', unhex(value ->> 'id'), value ->> 'slot', value ->> 'key_hash',
  value ->> 'tenant_hash', value ->> 'topic_hash', value ->> 'priority', value ->> 'wake_at',
  value ->> 'expires_at'
from json_each(?1)
where value ->> 'wake_at' is not null
