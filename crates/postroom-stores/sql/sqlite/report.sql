-- A dispatcher's sign of life: the last one counts, and of its start the first. ?1 owner, ?2 name,
-- ?3 version, ?4 its start, ?5 now, ?6 until when this is good, ?7 draining.
insert into postroom_outbox_dispatcher
  (owner, name, version, started_at, seen_at, live_until, draining)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (owner) do update set
  name = excluded.name,
  version = excluded.version,
  seen_at = excluded.seen_at,
  live_until = excluded.live_until,
  draining = excluded.draining
