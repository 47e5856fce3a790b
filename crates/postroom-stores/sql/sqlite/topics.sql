-- What is not delivered, by topic. ?1 limit. What other programs inserted counts as if it were
-- taken in already.
with live as (
  select
    topic_hash, count(*) as live, sum(token is null and attempts > 0) as failed,
    -- One of them, to know the topic by.
    min(seq) as seq
  from (
    select topic_hash, token, attempts, seq from postroom_outbox_queue
    union all
    select topic_hash, null, attempts, seq from postroom_outbox_parked
  )
  group by topic_hash
)
select topic, sum(live) as live, sum(failed) as failed, sum(dead) as dead
from (
  select m.topic, l.live, l.failed, 0 as dead
  from live l
  cross join postroom_outbox_message m on m.seq = l.seq
  union all
  select topic, 1, 0, 0 from postroom_outbox_incoming
  union all
  select m.topic, 0, 0, 1
  from postroom_outbox_settled s indexed by postroom_outbox_settled_at
  cross join postroom_outbox_message m on m.seq = s.seq
  where s.state = 2 and s.reason <> 6
)
group by topic
order by sum(live) + sum(dead) desc, topic
limit ?1
