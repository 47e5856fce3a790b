-- What is there already, for messages that were not written: [["id", "key or null"], ...].
-- Locking, so that it sees winners that committed after the caller's snapshot. A message without a
-- place, or a key without a message that was never there, is what a cancelled append of this
-- transaction left behind. The places are read as the caller's snapshot has them: a message that is
-- not in it is another transaction's, whose places it can not have either.
select
    taken.message_id as key_message_id,
    taken.content_hash as key_content,
    taken.settled_at as key_settled_at,
    not exists (select 1 from postroom_outbox_message as seen where seen.seq = there.seq)
        or exists (select 1 from postroom_outbox_queue as queue where queue.seq = there.seq)
        or exists (select 1 from postroom_outbox_ordered as queue where queue.seq = there.seq)
        or exists (select 1 from postroom_outbox_parked as parked where parked.seq = there.seq)
        or exists (select 1 from postroom_outbox_settled as settled where settled.seq = there.seq)
        as placed,
    there.seq,
    there.id,
    there.topic,
    there.payload,
    there.content_type,
    there.headers,
    there.aggregate_type,
    there.aggregate_id,
    there.ordering_key,
    there.tenant_id,
    there.correlation_id,
    there.causation_id,
    there.idempotency_key,
    there.occurred_at,
    there.due_at,
    there.expires_at,
    there.priority,
    there.source,
    there.source_id,
    there.consumer
from json_table(?, '$[*]' columns (
    place for ordinality,
    id varchar(32) path '$[0]',
    hash varchar(64) path '$[1]'
)) as wanted
left join postroom_outbox_key as taken force index (primary) on taken.hash = unhex(wanted.hash)
left join postroom_outbox_message as there force index (id) on there.id = unhex(wanted.id)
order by wanted.place
lock in share mode
