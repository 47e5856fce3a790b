-- Done, kept. ?1 seqs, ?2 now, ?3 owner.
insert into postroom_outbox_settled (seq, id, state, settled_at, settled_by, attempts, lost)
select seq, id, 1, ?2, ?3, attempts, lost
from postroom_outbox_queue
where seq in (select value from json_each(?1))
