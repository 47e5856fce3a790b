-- The last slot of an owner's share. ?1 owner, ?2 now, ?3 how many slots come before it.
select slot
from postroom_outbox_slot
where owner = ?1
  and locked_until > ?2
order by slot
limit 1 offset ?3
