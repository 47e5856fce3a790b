-- The first pause counts. ?1 topic or null, ?2 its hash, ?3 now, ?4 who, ?5 why.
insert into postroom_outbox_control (topic, topic_hash, paused_at, paused_by, reason)
values (?1, ?2, ?3, ?4, ?5)
on conflict do nothing
