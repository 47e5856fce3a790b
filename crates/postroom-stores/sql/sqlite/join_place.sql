-- The place of a follow-up in the queue of the outbox.
insert into postroom_outbox_queue (seq, id, slot, key_hash, tenant_hash, topic_hash, priority)
select ?3, id, slot, key_hash, tenant_hash, topic_hash, priority
from postroom_join_follow_up
where join_id = ?1 and state = ?2
