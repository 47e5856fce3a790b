-- ?1 status code, ?2 topic, ?3 tenant, ?4 before this id, ?5 limit; null means any.
select
  m.*,
  q.token is not null as leased, q.owner, q.locked_until,
  p.wake_at,
  s.state, s.reason, s.settled_at, s.settled_by,
  coalesce(s.attempts, q.attempts, p.attempts) as attempts,
  coalesce(s.lost, q.lost, p.lost) as lost,
  (select a.error from postroom_outbox_attempt a where a.id = m.id order by a.n desc limit 1)
    as last_error
from postroom_outbox_message m
left join postroom_outbox_queue q on q.seq = m.seq
left join postroom_outbox_parked p on p.seq = m.seq
left join postroom_outbox_settled s on s.seq = m.seq
where (?1 is null or case ?1
    when 1 then s.state is null and q.token is null
    when 2 then q.token is not null
    when 3 then s.state is null and q.token is null and coalesce(q.attempts, p.attempts) > 0
    when 4 then s.state is 1
    when 5 then s.state is 2
  end)
  and (?2 is null or m.topic = ?2)
  and (?3 is null or m.tenant_id = ?3)
  and (?4 is null or m.id < ?4)
order by m.id desc
limit ?5
