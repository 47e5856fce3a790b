-- Live rows are few; the settled ones are counted by their index. What other programs inserted
-- counts as if it were taken in already.
with live as (
  select seq, token, attempts, token is null and (locked_until is null or locked_until <= ?1) as due
  from postroom_outbox_queue
  union all
  select seq, null, attempts, wake_at <= ?1
  from postroom_outbox_parked
  union all
  select seq, null, 0, due_at is null or due_at <= ?1
  from postroom_outbox_incoming
)
select
  (select count(*) from live where token is null and due) as ready,
  (select count(*) from live where token is null and not due) as waiting,
  (select count(*) from live where token is not null) as leased,
  (select count(*) from live where token is null and attempts > 0) as failed,
  (select count(*) from postroom_outbox_settled where state = 1) as done,
  (select count(*) from postroom_outbox_settled where state = 2) as dead,
  (select min(coalesce(m.created_at, i.inserted_at))
   from live l
   left join postroom_outbox_message m on m.seq = l.seq
   left join postroom_outbox_incoming i on i.seq = l.seq
   where l.token is null and l.due) as oldest_ready
