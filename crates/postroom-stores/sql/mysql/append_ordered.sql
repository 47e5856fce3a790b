-- Places in the queue of messages with an ordering key.
insert into postroom_outbox_ordered (
    slot, key_hash, seq, id, topic_hash, tenant_hash, expires_at, priority
)
values
    (?, ?, ?, ?, ?, ?, ?, ?)
