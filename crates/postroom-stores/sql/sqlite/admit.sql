-- Takes note of a key without a message. ?1 hash, ?2 an id that no message has, ?3 now. Touches a
-- row when it is new. Nothing is known of its content.
insert into postroom_outbox_key (hash, message_id, created_at, gone_at)
values (?1, ?2, ?3, ?3)
on conflict (hash) do nothing
