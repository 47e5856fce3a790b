-- Whoever was silent for a day is forgotten, but who reports now. Now, owner.
delete from postroom_outbox_dispatcher
where seen_at < coalesce(
        ?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    ) - 86400000000
    and owner <> ?
