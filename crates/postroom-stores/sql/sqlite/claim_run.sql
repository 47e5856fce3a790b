-- The first rows of some keys. ?1 the keys as [slot, hash], ?2 how many rows of each.
select
  k.key as place, q.seq, q.owner, q.locked_until, q.attempts, q.lost, q.expires_at, q.topic_hash
from json_each(?1) k
cross join postroom_outbox_queue q indexed by postroom_outbox_queue_slot
  on q.slot = k.value ->> 0 and q.key_hash = k.value ->> 1 and q.seq <= coalesce(
    (select r.seq
     from postroom_outbox_queue r indexed by postroom_outbox_queue_slot
     where r.slot = k.value ->> 0 and r.key_hash = k.value ->> 1
     order by r.seq limit 1 offset ?2 - 1),
    9223372036854775807)
order by k.key, q.seq
