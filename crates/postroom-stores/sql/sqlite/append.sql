-- The row of "values" is repeated for many messages at once. What is not answered has a taken id.
-- The next place is given to a message without one.
insert into postroom_outbox_message (
  seq, id, topic, payload, content_type, headers, aggregate_type, aggregate_id, ordering_key,
  tenant_id, correlation_id, causation_id, idempotency_key, occurred_at, due_at, expires_at,
  priority, created_at, source, source_id, consumer
)
values
  (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (id) do nothing
returning seq, id
