-- The dead letters that died last, and the newest messages that will be tried again. ?1 limit.
with found as (
  select * from (
    select seq, attempts, reason, settled_at
    from postroom_outbox_settled indexed by postroom_outbox_settled_at
    where state = 2 and reason <> 6
    order by settled_at desc, seq desc limit ?1
  )
  union all
  select * from (
    select seq, attempts, null, null from (
      select seq, attempts from postroom_outbox_queue where token is null and attempts > 0
      union all
      select seq, attempts from postroom_outbox_parked where attempts > 0
    )
    order by seq desc limit ?1
  )
)
select
  m.id, m.topic, f.reason, f.attempts, a.error,
  coalesce(f.settled_at, a.at, m.created_at) as at
from found f
cross join postroom_outbox_message m on m.seq = f.seq
left join postroom_outbox_attempt a on a.id = m.id and a.n = (
  select max(n) from postroom_outbox_attempt where id = m.id
)
order by at desc, m.id desc
