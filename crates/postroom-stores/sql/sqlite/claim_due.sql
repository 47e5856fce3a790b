-- Ordered rows that came due: they take their places as ready. ?1 now, ?2 limit.
select seq
from postroom_outbox_parked
where slot is not null
  and wake_at <= ?1
order by wake_at, seq
limit ?2
