update postroom_outbox_queue
set locked_until = ?4
where seq = ?1
  and token = ?2
  and owner = ?3
  and locked_until > ?5
