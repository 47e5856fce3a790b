insert into postroom_join_tally (id, state, expected, created_at, content_hash)
values (?1, 0, ?2, ?3, ?4)
on conflict (id) do nothing
