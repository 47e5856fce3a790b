-- Ordering keys that stand still: first those that a dead message stops, then those whose first
-- message waits. ?1 now, ?2 limit, ?3 how many keys to look at, ?4 how many messages to count.
-- From key to key: what lies behind a first row is never read.
with recursive visited (seq) as (
  select * from (
    select seq from postroom_outbox_queue indexed by postroom_outbox_queue_slot
    where slot is not null
    order by slot, key_hash, seq limit 1
  )
  union all
  select coalesce(
    (select n.seq from postroom_outbox_queue n indexed by postroom_outbox_queue_slot
     where n.slot = q.slot and n.key_hash > q.key_hash
     order by n.key_hash, n.seq limit 1),
    (select n.seq from postroom_outbox_queue n indexed by postroom_outbox_queue_slot
     where n.slot > q.slot
     order by n.slot, n.key_hash, n.seq limit 1))
  from visited v
  cross join postroom_outbox_queue q on q.seq = v.seq
  limit ?3
),
stopped (seq, slot, key_hash, until) as (
  select * from (
    select min(seq), slot, key_hash, null from postroom_outbox_halt
    group by slot, key_hash
    order by min(seq) limit ?2
  )
  union all
  select * from (
    select q.seq, q.slot, q.key_hash, q.locked_until
    from visited v
    cross join postroom_outbox_queue q on q.seq = v.seq
    where q.token is null and q.locked_until > ?1
      and not exists (
        select 1 from postroom_outbox_halt h where h.slot = q.slot and h.key_hash = q.key_hash
      )
    order by q.seq limit ?2
  )
)
select
  m.ordering_key, m.tenant_id, m.id, m.topic, s.until,
  (select count(*) from (
    select 1 from postroom_outbox_queue b indexed by postroom_outbox_queue_slot
    where b.slot = s.slot and b.key_hash = s.key_hash and b.seq <> s.seq
    limit ?4
  )) as behind
from stopped s
cross join postroom_outbox_message m on m.seq = s.seq
order by s.until is not null, s.seq
limit ?2
