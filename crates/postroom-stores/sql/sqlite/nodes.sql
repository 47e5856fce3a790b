-- Dispatchers that were heard of within a day, with what they hold. ?1 now, ?2 a day ago.
select
  d.owner, d.name, d.version, d.started_at, d.seen_at, d.live_until > ?1 as is_live, d.draining,
  coalesce(h.leases, 0) as leases,
  coalesce(o.slots, 0) as slots
from postroom_outbox_dispatcher d
left join (
  select owner, count(*) as leases from postroom_outbox_queue
  where token is not null and locked_until > ?1
  group by owner
) h on h.owner = d.owner
left join (
  select owner, count(*) as slots from postroom_outbox_slot
  where locked_until > ?1
  group by owner
) o on o.owner = d.owner
where d.seen_at >= ?2
order by is_live desc, d.started_at, d.owner
limit 1000
