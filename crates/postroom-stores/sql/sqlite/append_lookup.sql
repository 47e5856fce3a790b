-- Who was first: the message behind a key, and the message behind an id.
select
  (select message_id from postroom_outbox_key where hash = ?2) as key_message_id,
  m.*
from (select 1)
left join postroom_outbox_message m on m.id = ?1
