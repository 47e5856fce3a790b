insert into postroom_outbox_key (hash, message_id, created_at, content_hash)
values (?1, ?2, ?3, ?4)
on conflict (hash) do nothing
