insert into postroom_outbox_key (hash, message_id, created_at)
values (?1, ?2, ?3)
on conflict (hash) do nothing
