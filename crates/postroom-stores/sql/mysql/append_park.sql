-- Messages that wait for their time.
insert into postroom_outbox_parked (
    seq, band, wake_at, id, slot, key_hash, topic_hash, tenant_hash, priority, expires_at
)
values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
