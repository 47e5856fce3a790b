-- An ordered row is renewed together with its slot, or not at all.
update postroom_outbox_queue as q
set locked_until = ?4
where q.seq = ?1
  and q.token = ?2
  and q.owner = ?3
  and q.locked_until > ?5
  and (q.slot is null or exists (
    select 1 from postroom_outbox_slot s
    where s.slot = q.slot and s.owner = ?3 and s.locked_until > ?5))
returning slot
