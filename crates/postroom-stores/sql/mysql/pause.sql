-- The first pause counts. Topic ('' for the whole queue), its hash, now, who, why.
insert ignore into postroom_outbox_control (topic, topic_hash, paused_at, paused_by, reason)
values (
    ?, ?,
    coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))),
    ?, ?
)
