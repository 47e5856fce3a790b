-- Who was first: the message behind a key, and the message behind an id. A message without a place,
-- or a key without a message that was never there, is what a cancelled append of this transaction
-- left behind.
select
  k.message_id as key_message_id,
  k.gone_at,
  k.content_hash as key_content,
  exists (select 1 from postroom_outbox_queue q where q.seq = m.seq)
    or exists (select 1 from postroom_outbox_parked p where p.seq = m.seq)
    or exists (select 1 from postroom_outbox_settled s where s.seq = m.seq) as placed,
  m.*
from (select 1)
left join postroom_outbox_message m on m.id = ?1
left join postroom_outbox_key k on k.hash = ?2
