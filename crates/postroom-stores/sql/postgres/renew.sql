-- Extends leases that have not run out. An expired one is never renewed: somebody may be taking it.
-- $1 now, $2 owner, $3 seqs, $4 tokens, $5 lease in microseconds. Answers with what was applied.
with
clock as materialized (
    select now, now + $5::bigint * interval '1 microsecond' as until
    from (
        select coalesce($1::timestamptz, clock_timestamp()) as now
    ) as present
),
held as materialized (
    select seq, slot
    from postroom.outbox_queue
    where seq = any($3::bigint[])
        and owner = $2::uuid
        and locked_until > (select now from clock)
        and ((seq, token) in (select * from unnest($3::bigint[], $4::uuid[]))) is true
),
-- An ordered row lives no longer than its slot, so the slot goes with it or both stay.
kept as (
    update postroom.outbox_slot
    set locked_until = greatest(locked_until, (select until from clock))
    where slot = any(array(select slot from held where slot is not null))
        and owner = $2::uuid
        and locked_until > (select now from clock)
    returning slot
),
alive as (
    update postroom.outbox_node
    set live_until = greatest(live_until, (select until from clock))
    where owner = $2::uuid
        and exists (select from kept)
)
update postroom.outbox_queue
set locked_until = (select until from clock)
where seq = any(array(select seq from held))
    and owner = $2::uuid
    and locked_until > (select now from clock)
    and ((seq, token) in (select * from unnest($3::bigint[], $4::uuid[]))) is true
    and (slot is null or slot in (select slot from kept))
returning seq, token
