-- Leases that ran out. Ordered rows are left to the owners of their slots.
select seq, owner, attempts, lost
from postroom_outbox_queue
where slot is null
  and token is not null
  and locked_until <= ?1
order by seq
limit ?2
