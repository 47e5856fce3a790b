-- Messages with their delivery state. ?1 ids, ?2 whether with their payloads.
select
  m.seq, m.id, m.topic, m.content_type, m.headers, m.aggregate_type, m.aggregate_id, m.ordering_key,
  m.tenant_id, m.correlation_id, m.causation_id, m.idempotency_key, m.occurred_at, m.due_at,
  m.expires_at, m.priority, m.created_at, m.source, m.source_id, m.consumer,
  iif(?2, m.payload, x'') as payload, octet_length(m.payload) as payload_bytes,
  q.token is not null as leased, q.owner, q.locked_until,
  p.wake_at,
  s.state, s.reason, s.settled_at, s.settled_by,
  coalesce(s.attempts, q.attempts, p.attempts) as attempts,
  coalesce(s.lost, q.lost, p.lost) as lost,
  (select a.error from postroom_outbox_attempt a where a.id = m.id order by a.n desc limit 1)
    as last_error
from postroom_outbox_message m
left join postroom_outbox_queue q on q.seq = m.seq
left join postroom_outbox_parked p on p.seq = m.seq
left join postroom_outbox_settled s on s.seq = m.seq
where m.id in (select unhex(value) from json_each(?1))
