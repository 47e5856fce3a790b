update postroom_outbox_queue
set token = null, owner = null, locked_until = null, attempts = ?2, lost = ?3
where seq = ?1
