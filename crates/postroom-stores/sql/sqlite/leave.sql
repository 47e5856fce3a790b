-- Frees the slots of an owner behind ?2, but those in which it holds rows.
update postroom_outbox_slot as s
set owner = null, locked_until = null
where s.owner = ?1
  and s.slot > ?2
  and not exists (
    select 1 from postroom_outbox_queue q indexed by postroom_outbox_queue_held
    where q.slot = s.slot and q.token is not null and q.owner = ?1
  )
