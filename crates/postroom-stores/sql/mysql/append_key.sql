-- Keys of messages, in the order of the hash, so that two flushes with the same keys do not
-- deadlock. An upsert that changes nothing locks a taken key for itself: after INSERT IGNORE rivals
-- would share it, and deadlock in the look that follows. When the first of several rivals rolls
-- back, InnoDB may still choose victims among the others; they run again.
insert into postroom_outbox_key (hash, written_by, created_at, message_id, content_hash)
values
    (?, ?, ?, ?, ?)
on duplicate key update written_by = written_by
