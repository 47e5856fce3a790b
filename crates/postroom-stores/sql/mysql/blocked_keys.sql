-- Ordering keys that stand still: first those that a dead message stops, then those whose first
-- message waits. Limit, how many keys to look at, now, limit, how many messages to count less one,
-- limit, limit.
with
halted as (
    select slot, key_hash, min(seq) as seq
    from postroom_outbox_halt
    group by slot, key_hash
    order by min(seq)
    limit ?
),
-- From key to key: what lies behind a first row is never read.
visited as (
    select slot, key_hash, min(seq) as seq
    from postroom_outbox_ordered force index for group by (primary)
    group by slot, key_hash
    order by slot, key_hash
    limit ?
),
stopped as (
    (
        select slot, key_hash, seq, null as until
        from halted
    )
    union all
    (
        select ordered.slot, ordered.key_hash, ordered.seq, ordered.locked_until
        from visited
        straight_join postroom_outbox_ordered as ordered
            on ordered.slot = visited.slot
            and ordered.key_hash = visited.key_hash
            and ordered.seq = visited.seq
        where ordered.leased = 0
            and ordered.locked_until > coalesce(
                ?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
            )
            and not exists (
                select 1
                from postroom_outbox_halt as halt
                where halt.slot = ordered.slot
                    and halt.key_hash = ordered.key_hash
            )
        order by ordered.seq
        limit ?
    )
),
-- Where the count of what lies behind ends. The limit keeps this a step of its own.
measured as (
    select stopped.*, coalesce(
        (
            select behind.seq
            from postroom_outbox_ordered as behind
            where behind.slot = stopped.slot
                and behind.key_hash = stopped.key_hash
                and behind.seq <> stopped.seq
            order by behind.seq
            limit 1 offset ?
        ),
        9223372036854775807
    ) as last
    from stopped
    order by until is not null, seq
    limit ?
)
select
    message.ordering_key,
    message.tenant_id,
    message.id,
    message.topic,
    measured.until,
    (
        select count(*)
        from postroom_outbox_ordered as behind
        where behind.slot = measured.slot
            and behind.key_hash = measured.key_hash
            and behind.seq <> measured.seq
            and behind.seq <= measured.last
    ) as behind
from measured
straight_join postroom_outbox_message as message on message.seq = measured.seq
order by measured.until is not null, measured.seq
limit ?
