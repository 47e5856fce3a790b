-- Places in the queue of messages without an ordering key.
insert into postroom_outbox_queue (
    band, seq, id, topic_hash, tenant_hash, expires_at, leased, token, owner, locked_until
)
values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
