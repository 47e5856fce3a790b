-- Nothing comes back when the id is taken.
insert into postroom_outbox_message (
  id, topic, payload, content_type, headers, aggregate_type, aggregate_id, ordering_key,
  tenant_id, correlation_id, causation_id, idempotency_key, occurred_at, due_at, expires_at,
  priority, created_at
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
on conflict (id) do nothing
returning seq
