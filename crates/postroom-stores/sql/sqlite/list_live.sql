-- The ids of one page of live messages, the last place in the queue first.
-- Arguments as in list, but ?13 lowest place, ?14 highest place; there is no ?17.
select live.id, live.seq
from (
  -- The first two are run, or the others for those that failed.
  select * from (
    select id, seq, attempts, token is not null as leased
    from postroom_outbox_queue
    where ?1 <> 3 and seq between ?13 and ?14
    order by seq desc limit ?16
  )
  union all
  select * from (
    select id, seq, attempts, 0
    from postroom_outbox_parked
    where ?1 <> 3 and seq between ?13 and ?14
    order by seq desc limit ?16
  )
  union all
  select * from (
    select id, seq, attempts, token is not null
    from postroom_outbox_queue indexed by postroom_outbox_queue_failed
    where ?1 = 3 and attempts > 0 and seq between ?13 and ?14
    order by seq desc limit ?16
  )
  union all
  select * from (
    select id, seq, attempts, 0
    from postroom_outbox_parked indexed by postroom_outbox_parked_failed
    where ?1 = 3 and attempts > 0 and seq between ?13 and ?14
    order by seq desc limit ?16
  )
) live
-- Cross joins keep this order of tables.
cross join postroom_outbox_message m on m.id = live.id
where live.leased = (?1 = 2)
  and (?2 is null or m.topic = ?2)
  and (?3 is null or substr(m.topic, 1, length(?3)) = ?3)
  and (?4 is null or m.tenant_id = ?4)
  and (?5 is null or m.aggregate_type = ?5)
  and (?6 is null or m.aggregate_id = ?6)
  and (?7 is null or m.ordering_key = ?7)
  and (?8 is null or m.created_at >= ?8)
  and (?9 is null or m.created_at < ?9)
  and (?10 is null or instr((
    select a.error from postroom_outbox_attempt a where a.id = m.id order by a.n desc limit 1
  ), ?10) > 0)
  and (?11 is null or live.attempts >= ?11)
  -- Nothing that lives has a reason.
  and ?12 is null
order by live.seq desc
limit ?15
