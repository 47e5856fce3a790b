-- Takes over an expired lease; the counters say what that cost.
update postroom_outbox_queue
set token = ?2, owner = ?3, locked_until = ?4, attempts = ?5, lost = ?6
where seq = ?1
