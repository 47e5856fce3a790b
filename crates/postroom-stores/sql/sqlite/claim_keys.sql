-- The next keys behind a key, each with its first row. ?1 owner, ?2 now, ?3 the last of its slots
-- that it may use, ?4 and ?5 the key, ?6 limit, ?7 whether to look for rows in somebody's hands.
-- Each step is a search in the index for the next key: what lies behind a first row is never read.
with recursive keys (seq, slot, key_hash) as (
  -- In a slot that is not the owner's there is no further key.
  select null, ?4, iif(
    exists (
      select 1 from postroom_outbox_slot
      where slot = ?4 and slot <= ?3 and owner = ?1 and locked_until > ?2),
    ?5, 9223372036854775807)
  union all
  select q.seq, q.slot, q.key_hash
  from keys k
  cross join postroom_outbox_queue q on q.seq = coalesce(
    (select n.seq
     from postroom_outbox_queue n indexed by postroom_outbox_queue_slot
     where n.slot = k.slot and n.key_hash > k.key_hash
     order by n.key_hash, n.seq limit 1),
    (select n.seq
     from postroom_outbox_slot s
     cross join postroom_outbox_queue n indexed by postroom_outbox_queue_slot on n.slot = s.slot
     where s.slot > k.slot and s.slot <= ?3 and s.owner = ?1 and s.locked_until > ?2
     order by s.slot, n.key_hash, n.seq limit 1))
  limit ?6 + 1
)
select
  k.slot, k.key_hash, q.token is not null as leased, q.locked_until, q.lost, q.topic_hash,
  s.locked_until as slot_until,
  exists (
    select 1 from postroom_outbox_halt h
    where h.slot = k.slot and h.key_hash = k.key_hash) as halted,
  ?7 and exists (
    -- By name: the other index would read all of the key's backlog.
    select 1 from postroom_outbox_queue h indexed by postroom_outbox_queue_held
    where h.slot = k.slot and h.key_hash = k.key_hash and h.token is not null
      and h.locked_until > ?2) as held
from keys k
cross join postroom_outbox_queue q on q.seq = k.seq
cross join postroom_outbox_slot s on s.slot = k.slot
