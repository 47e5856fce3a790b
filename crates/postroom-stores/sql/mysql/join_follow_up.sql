-- A message that the end of a join publishes.
insert into postroom_join_follow_up (
    join_id, state, id, topic, payload, content_type, headers,
    aggregate_type, aggregate_id, ordering_key, tenant_id, correlation_id, causation_id,
    priority, slot, key_hash, tenant_hash, topic_hash
)
values (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)
