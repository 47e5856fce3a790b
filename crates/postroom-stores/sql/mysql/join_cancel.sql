-- Ends an open join without a follow-up: now, id.
update postroom_join_tally
set state = 3,
    ended_at = coalesce(
        ?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    )
where id = ?
    and state = 0
