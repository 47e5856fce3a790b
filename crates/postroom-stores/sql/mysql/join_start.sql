-- Starts a join, unless its id is taken: id, members expected, now, content hash.
insert ignore into postroom_join_tally (id, state, expected, created_at, content_hash)
values (
    ?, 0, ?,
    coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))),
    ?
)
