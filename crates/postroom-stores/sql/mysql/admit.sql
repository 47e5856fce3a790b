-- Takes note of a key without a message: now, hash, who writes, an id that no message has.
-- A rival's transaction is waited for. Nothing is known of its content.
insert into postroom_outbox_key (
    created_at, hash, written_by, message_id, content_hash, settled_at
)
values (
    coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))),
    ?, ?, ?, '', created_at
)
on duplicate key update written_by = written_by
