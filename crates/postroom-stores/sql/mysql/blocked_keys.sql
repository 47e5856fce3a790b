-- Ordering keys that stand still: first those that a dead message stops, then those whose first
-- message waits. Limit, how many keys to look at, now, limit, limit.
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
    select slot, key_hash, seq, null as until
    from halted
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
)
select
    message.ordering_key,
    message.tenant_id,
    message.id,
    message.topic,
    stopped.until,
    stopped.slot,
    stopped.key_hash,
    stopped.seq
from stopped
straight_join postroom_outbox_message as message on message.seq = stopped.seq
order by stopped.until is not null, stopped.seq
limit ?
