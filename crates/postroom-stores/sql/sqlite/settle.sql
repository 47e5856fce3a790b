-- The leases that this owner has of these places. With the answer comes whether there is a join to
-- count them for. ?1 seqs, ?2 owner.
select seq, token, exists (select 1 from postroom_join_tally where state = 0) as joins_open
from postroom_outbox_queue
where seq in (select value from json_each(?1))
  and owner = ?2
