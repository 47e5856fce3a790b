-- Dispatchers that were heard of within a day, with what they hold. $1 now.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
held as materialized (
    select owner, count(*) as leases
    from postroom.outbox_queue
    where token is not null
        and locked_until > (select now from clock)
    group by owner
),
owned as materialized (
    select owner, count(*) as slots
    from postroom.outbox_slot
    where locked_until > (select now from clock)
    group by owner
)
select
    owner,
    name,
    version,
    started_at,
    seen_at,
    live_until > now as is_live,
    draining,
    coalesce(leases, 0) as leases,
    coalesce(slots, 0) as slots
from postroom.outbox_dispatcher
left join held using (owner)
left join owned using (owner)
cross join clock
where seen_at >= now - interval '1 day'
order by is_live desc, started_at, owner
limit 1000
