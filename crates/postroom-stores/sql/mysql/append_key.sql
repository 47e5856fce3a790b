-- Keys of messages, in the order of the hash, so that two flushes with the same keys do not
-- deadlock. An upsert that changes nothing locks a taken key for itself: INSERT IGNORE would share
-- it, and of three rivals two would deadlock when the first rolls back.
insert into postroom_outbox_key (hash, written_by, created_at, message_id, content_hash)
values
    (?, ?, ?, ?, ?)
on duplicate key update written_by = written_by
