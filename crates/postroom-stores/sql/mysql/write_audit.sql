-- Now, actor, action, target, outcome, how many messages.
insert into postroom_audit (at, actor, action, target, outcome, changed)
values (
    coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))),
    ?, ?, ?, ?, ?
)
