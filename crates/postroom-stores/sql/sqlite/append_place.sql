-- The places of new messages: in the queue, ready or born leased.
insert into postroom_outbox_queue (
  seq, id, slot, key_hash, tenant_hash, topic_hash, priority, token, owner, locked_until,
  expires_at
)
select
  value ->> 'seq', unhex(value ->> 'id'), value ->> 'slot', value ->> 'key_hash',
  value ->> 'tenant_hash', value ->> 'topic_hash', value ->> 'priority',
  unhex(value ->> 'token'), unhex(value ->> 'owner'), value ->> 'locked_until',
  value ->> 'expires_at'
from json_each(?1)
where value ->> 'wake_at' is null
