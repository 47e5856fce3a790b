-- Ordering keys that stand still: first those that a dead message stops, then those whose first
-- message waits. $1 now, $2 limit, $3 how many keys to look at, $4 how many messages to count.
with recursive
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
halted as materialized (
    select slot, key_hash, min(seq) as seq
    from postroom.outbox_halt
    group by slot, key_hash
    order by min(seq)
    limit $2::bigint
),
-- From key to key: what lies behind a first row is never read.
visited (slot, key_hash, seq, id, token, locked_until, number) as (
    (
        select slot, key_hash, seq, id, token, locked_until, 1
        from postroom.outbox_queue_ordered
        order by slot, key_hash, seq
        limit 1
    )
    union all
    select next.*, visited.number + 1
    from visited
    cross join lateral (
        select slot, key_hash, seq, id, token, locked_until
        from postroom.outbox_queue_ordered
        where (slot, key_hash) > (visited.slot, visited.key_hash)
        order by slot, key_hash, seq
        limit 1
    ) as next
    where visited.number < $3::integer
),
waiting as materialized (
    select slot, key_hash, seq, id, locked_until
    from visited
    where token is null
        and locked_until > (select now from clock)
        and not exists (
            select from postroom.outbox_halt as halt
            where halt.slot = visited.slot and halt.key_hash = visited.key_hash
        )
    order by seq
    limit $2
)
select
    message.ordering_key,
    message.tenant_id,
    message.id,
    message.topic,
    stopped.locked_until,
    behind.behind
from (
    select halted.slot, halted.key_hash, halted.seq, settled.id, null as locked_until
    from halted
    cross join lateral (
        select id from postroom.outbox_settled where seq = halted.seq limit 1
    ) as settled
    union all
    select slot, key_hash, seq, id, locked_until from waiting
) as stopped
cross join lateral (
    select id, ordering_key, tenant_id, topic
    from postroom.outbox_message
    where id = stopped.id
    limit 1
) as message
cross join lateral (
    select count(*) as behind
    from (
        select
        from postroom.outbox_queue_ordered
        where slot = stopped.slot
            and key_hash = stopped.key_hash
            and seq <> stopped.seq
        limit $4::bigint
    ) as counted
) as behind
order by stopped.locked_until is not null, stopped.seq
limit $2
