-- Leases rows of the queue whose counters stay as they are.
update postroom_outbox_queue
set token = ?2, owner = ?3, locked_until = ?4
where seq in (select value from json_each(?1))
