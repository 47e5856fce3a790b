-- The keys of messages that are about to be deleted: their time runs from the settle.
update postroom_outbox_key
set gone_at = ?2
where message_id in (
  select id from postroom_outbox_message
  where seq in (select value from json_each(?1))
    and (idempotency_key is not null or source is not null)
)
