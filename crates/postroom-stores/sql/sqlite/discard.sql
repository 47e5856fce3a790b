-- Dead as discarded, whether it was live, which its place in the queue ends next, or dead before.
insert into postroom_outbox_settled (seq, id, state, reason, settled_at, attempts, lost)
select
  m.seq, m.id, 2, 6, ?2,
  coalesce(s.attempts, q.attempts, p.attempts), coalesce(s.lost, q.lost, p.lost)
from postroom_outbox_message m
left join postroom_outbox_queue q on q.seq = m.seq
left join postroom_outbox_parked p on p.seq = m.seq
left join postroom_outbox_settled s on s.seq = m.seq
where m.seq in (select value from json_each(?1))
on conflict (seq) do update
set reason = 6, settled_at = excluded.settled_at
where reason <> 6
