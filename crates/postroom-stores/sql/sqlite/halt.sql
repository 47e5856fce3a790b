-- Ordered rows that are about to leave the queue as dead stop their keys.
insert into postroom_outbox_halt (seq, slot, key_hash)
select seq, slot, key_hash
from postroom_outbox_queue not indexed
where seq in (select value from json_each(?1))
  and slot is not null
