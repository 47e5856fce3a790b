-- The next keys behind a key, each with its first row. ?1 owner, ?2 now, ?3 the last of its slots
-- that it may use, ?4 and ?5 the key, ?6 limit, ?7 whether to look for rows in somebody's hands.
-- Each step is a search for the next key: what lies behind a first row is never read. The indexes
-- are named because statistics of a queue that was empty by chance lead astray.
with recursive keys (slot, key_hash) as (
  -- In a slot that is not the owner's there is no further key.
  select ?4, iif(
    exists (
      select 1 from postroom_outbox_slot
      where slot = ?4 and slot <= ?3 and owner = ?1 and locked_until > ?2),
    ?5, 9223372036854775807)
  union all
  -- One search in the slot, one in the slots behind it; twice, as each answers with one value.
  select
    coalesce(
      (select n.slot
       from postroom_outbox_queue n indexed by postroom_outbox_queue_slot
       where n.slot = k.slot and n.key_hash > k.key_hash
       order by n.key_hash limit 1),
      (select n.slot
       from postroom_outbox_slot s
       cross join postroom_outbox_queue n indexed by postroom_outbox_queue_slot on n.slot = s.slot
       where s.slot > k.slot and s.slot <= ?3 and s.owner = ?1 and s.locked_until > ?2
       order by s.slot, n.key_hash limit 1)),
    coalesce(
      (select n.key_hash
       from postroom_outbox_queue n indexed by postroom_outbox_queue_slot
       where n.slot = k.slot and n.key_hash > k.key_hash
       order by n.key_hash limit 1),
      (select n.key_hash
       from postroom_outbox_slot s
       cross join postroom_outbox_queue n indexed by postroom_outbox_queue_slot on n.slot = s.slot
       where s.slot > k.slot and s.slot <= ?3 and s.owner = ?1 and s.locked_until > ?2
       order by s.slot, n.key_hash limit 1))
  from keys k
  where k.slot is not null
  -- The first row is where the search began.
  limit ?6 + 1
)
select
  k.slot, k.key_hash, q.token is not null as leased, q.locked_until, q.lost, q.topic_hash,
  -- No row is leased for longer than its slot; the slots of an owner are renewed together.
  (select min(locked_until) from postroom_outbox_slot
   where owner = ?1 and locked_until > ?2 and slot <= ?3) as slot_until,
  exists (
    select 1 from postroom_outbox_halt h indexed by postroom_outbox_halt_key
    where h.slot = k.slot and h.key_hash = k.key_hash) as halted,
  ?7 and exists (
    select 1 from postroom_outbox_queue h indexed by postroom_outbox_queue_held
    where h.slot = k.slot and h.key_hash = k.key_hash and h.token is not null
      and h.locked_until > ?2) as held
from (select slot, key_hash from keys limit -1 offset 1) k
cross join postroom_outbox_queue q indexed by postroom_outbox_queue_slot
  on q.slot = k.slot and q.key_hash = k.key_hash and q.seq = (
    select r.seq
    from postroom_outbox_queue r indexed by postroom_outbox_queue_slot
    where r.slot = k.slot and r.key_hash = k.key_hash
    order by r.seq limit 1)
