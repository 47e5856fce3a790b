-- What other programs inserted, in order: at most ?1 rows, and no more after ?2 bytes of payload.
select i.*
from postroom_outbox_incoming i
where seq in (
  select seq
  from (
    select seq, sum(size) over (order by seq) - size as bytes_before
    from (
      select seq, length(payload) as size
      from postroom_outbox_incoming
      order by seq
      limit ?1
    )
  )
  where bytes_before < ?2
)
order by seq
