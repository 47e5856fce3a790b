-- An owner of slots is alive, until ?2 at least.
insert into postroom_outbox_node (owner, live_until)
values (?1, ?2)
on conflict (owner) do update set live_until = max(live_until, excluded.live_until)
