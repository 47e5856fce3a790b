-- A row of the queue or of the parked ones is dead.
insert into postroom_outbox_settled (seq, id, state, reason, settled_at, settled_by, attempts, lost)
select seq, id, 2, ?2, ?3, ?4, ?5, ?6
from postroom_outbox_message
where seq = ?1
