-- The first pause counts. $1 now, $2 topic or null, $3 its hash, $4 who, $5 why.
insert into postroom.outbox_control (topic, topic_hash, paused_at, paused_by, reason)
select $2::text, $3::bigint, coalesce($1::timestamptz, clock_timestamp()), $4::text, $5::text
on conflict do nothing
returning true as is_new
