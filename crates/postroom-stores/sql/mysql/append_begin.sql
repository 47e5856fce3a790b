-- What an append must know first: now, how far apart places are, and what is paused.
select
    coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))) as now,
    cast(@@auto_increment_increment as signed) as step,
    exists (select 1 from postroom_outbox_control where topic = '') as all_paused,
    (select json_arrayagg(topic_hash) from postroom_outbox_control where topic <> '') as paused
