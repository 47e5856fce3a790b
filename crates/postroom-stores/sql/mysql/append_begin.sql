-- What an append must know first: now, how far apart places are, and a row per pause.
select
    clock.now,
    cast(@@auto_increment_increment as signed) as step,
    control.topic is not null as is_pause,
    control.topic_hash
from (
    select coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)))
        as now
) as clock
left join postroom_outbox_control as control on true
