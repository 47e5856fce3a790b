-- The history of a message whose lease ran out.
insert into postroom_outbox_attempt (id, n, at, by_owner, kind)
select id, ?2, ?3, ?4, 2
from postroom_outbox_message
where seq = ?1
