-- Dispatchers that were heard of within a day, with what they hold. Now.
with
clock as (
    select coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)))
        as now
),
held as (
    select owner, count(*) as leases
    from (
        select owner, leased, locked_until from postroom_outbox_queue
        union all
        select owner, leased, locked_until from postroom_outbox_ordered
    ) as live
    cross join clock
    where leased = 1
        and locked_until > now
    group by owner
),
owned as (
    select owner, count(*) as slots
    from postroom_outbox_slot
    cross join clock
    where locked_until > now
    group by owner
)
select
    dispatcher.owner,
    name,
    version,
    started_at,
    seen_at,
    live_until > now as is_live,
    draining,
    coalesce(leases, 0) as leases,
    coalesce(slots, 0) as slots
from postroom_outbox_dispatcher as dispatcher
left join held on held.owner = dispatcher.owner
left join owned on owned.owner = dispatcher.owner
cross join clock
where seen_at >= now - 86400000000
order by is_live desc, started_at, dispatcher.owner
limit 1000
