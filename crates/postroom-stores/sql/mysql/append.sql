-- Messages, in publish order. One statement, so that their places are a step apart.
insert into postroom_outbox_message (
    id, created_at, topic, payload, content_type, headers, aggregate_type, aggregate_id,
    ordering_key, tenant_id, correlation_id, causation_id, idempotency_key, occurred_at, due_at,
    expires_at, priority, source, source_id, consumer
)
values
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
