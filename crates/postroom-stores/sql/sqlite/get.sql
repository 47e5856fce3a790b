-- Messages with their delivery state. ?1 ids.
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
where m.id in (select unhex(value) from json_each(?1))
