-- The history of a message whose lease ran out.
insert into postroom_outbox_attempt (id, n, at, by_owner, kind)
select
  m.id,
  (select coalesce(max(a.n), 0) + 1 from postroom_outbox_attempt a where a.id = m.id),
  ?2, ?3, 2
from postroom_outbox_message m
where m.seq = ?1
