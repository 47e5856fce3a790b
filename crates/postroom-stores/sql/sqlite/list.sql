-- The ids of one page of messages, newest first; list_live has those of live rows.
-- ?1 status (1 pending, 2 leased, 3 failed, 4 done, 5 dead), ?2 topic, ?3 start of the topic,
-- ?4 tenant, ?5 type and ?6 id of the aggregate, ?7 ordering key, ?8 written since and ?9 before,
-- ?10 part of the last error, ?11 least attempts, ?12 reason; null filters nothing.
-- ?13 oldest id, ?14 newest id, ?15 limit, ?16 how many messages to look at, ?17 where: 1 among all
-- messages, 2 dead letters, 3 those of the aggregate, 4 those of the ordering key.
select m.id
from (
  -- One of the four is run.
  select id from (
    select id from postroom_outbox_message
    where ?17 = 1 and id between ?13 and ?14
    order by id desc limit ?16
  )
  union all
  select id from (
    select id from postroom_outbox_settled indexed by postroom_outbox_settled_dead
    where ?17 = 2 and state = 2 and id between ?13 and ?14
    order by id desc limit ?16
  )
  union all
  select id from (
    select id from postroom_outbox_message indexed by postroom_outbox_message_aggregate
    where ?17 = 3 and aggregate_type = ?5 and aggregate_id = ?6 and id between ?13 and ?14
    order by id desc limit ?16
  )
  union all
  select id from (
    select id from postroom_outbox_message indexed by postroom_outbox_message_ordering
    where ?17 = 4 and ordering_key = ?7 and id between ?13 and ?14
    order by id desc limit ?16
  )
) candidate
-- Cross joins keep this order of tables.
cross join postroom_outbox_message m on m.id = candidate.id
left join postroom_outbox_queue q on q.seq = m.seq
left join postroom_outbox_parked p on p.seq = m.seq
left join postroom_outbox_settled s on s.seq = m.seq
where (?2 is null or m.topic = ?2)
  and (?3 is null or substr(m.topic, 1, length(?3)) = ?3)
  and (?4 is null or m.tenant_id = ?4)
  and (?5 is null or m.aggregate_type = ?5)
  and (?6 is null or m.aggregate_id = ?6)
  and (?7 is null or m.ordering_key = ?7)
  and (?8 is null or m.created_at >= ?8)
  and (?9 is null or m.created_at < ?9)
  and (?11 is null or coalesce(s.attempts, q.attempts, p.attempts, 0) >= ?11)
  and (?12 is null or s.reason = ?12)
  and (?1 is null or case ?1
    when 1 then s.state is null and q.token is null
    when 2 then q.token is not null
    when 3 then s.state is null and q.token is null and coalesce(q.attempts, p.attempts) > 0
    when 4 then s.state is 1
    when 5 then s.state is 2
  end)
  -- The error of a done message is history, not its last one.
  and (?10 is null or s.state is not 1 and instr((
    select a.error from postroom_outbox_attempt a where a.id = m.id order by a.n desc limit 1
  ), ?10) > 0)
order by m.id desc
limit ?15
