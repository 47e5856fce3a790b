-- ?1 owner, ?2 now, ?3 until when, ?4 how many.
update postroom_outbox_slot
set owner = ?1, locked_until = ?3
where slot in (
  select slot from postroom_outbox_slot
  where owner is null or locked_until <= ?2
  order by slot limit ?4
)
