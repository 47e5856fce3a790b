-- The follow-up of a join that ended in this state, into the outbox. Its id was fixed when the join
-- was started: whoever used it for a message has published that.
insert into postroom_outbox_message (
  id, topic, payload, content_type, headers, aggregate_type, aggregate_id, ordering_key,
  tenant_id, correlation_id, causation_id, priority, occurred_at, created_at
)
select
  id, topic, payload, content_type, headers, aggregate_type, aggregate_id, ordering_key,
  tenant_id, correlation_id, causation_id, priority, ?3, ?3
from postroom_join_follow_up
where join_id = ?1 and state = ?2
on conflict (id) do nothing
returning seq
