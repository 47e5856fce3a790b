-- Returns expired leases to ready, or to dead past the maximum, and makes expired messages dead.
-- $1 now, $2 limit of each, $3 attempts at which a suspect is dead.
-- The rows are locked and read in this one statement: what was settled meanwhile is not seen (B10).
-- Ordered rows are left to the owner of their slot.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
lapsed as materialized (
    select
        seq, id, owner,
        attempts + (lost > 0)::integer as attempts,
        lost + 1 as lost,
        lost > 0 and attempts + 1 >= $3::integer as is_dead
    from (
        select seq, id, owner, attempts, lost
        from postroom.outbox_queue_plain
        where token is not null
            and locked_until <= (select now from clock)
        order by seq
        limit $2::integer
        for update skip locked
    ) as expired_lease
),
stale_queue as materialized (
    select seq, id, attempts, lost
    from postroom.outbox_queue_plain
    where token is null
        and expires_at <= (select now from clock)
    order by seq
    limit $2::integer
    for update skip locked
),
stale_parked as materialized (
    select seq, id, attempts, lost
    from postroom.outbox_parked
    where slot is null
        and expires_at <= (select now from clock)
    order by seq
    limit $2::integer - (select count(*) from stale_queue)
    for update skip locked
),
dead as materialized (
    select seq, id, attempts, lost, 3 as reason
    from lapsed
    where is_dead
    union all
    select seq, id, attempts, lost, 4
    from stale_queue
    union all
    select seq, id, attempts, lost, 4
    from stale_parked
),
released as (
    update postroom.outbox_queue_plain
    set token = null,
        owner = null,
        locked_until = null,
        attempts = attempts + (lost > 0)::integer,
        lost = lost + 1
    where seq = any(array(select seq from lapsed where not is_dead))
),
died as (
    delete from postroom.outbox_queue_plain
    where seq = any(array(select seq from dead))
),
died_parked as (
    delete from postroom.outbox_parked
    where seq = any(array(select seq from stale_parked))
),
-- Nobody settled these: the last owner, where there is one, is in the attempts.
buried as (
    insert into postroom.outbox_settled (
        seq, settled_at, id, settled_by, attempts, lost, state, reason
    )
    select seq, (select now from clock), id, null, attempts, lost, 2, reason
    from dead
),
recorded as (
    insert into postroom.outbox_attempt (id, n, at, by_owner, kind)
    select
        id,
        (select coalesce(max(n), 0) + 1 from postroom.outbox_attempt as a where a.id = lapsed.id),
        (select now from clock),
        owner,
        2
    from lapsed
)
select
    (select count(*) from lapsed where not is_dead) as released,
    (select count(*) from dead) as dead,
    (select count(*) from lapsed) >= $2
        or (select count(*) from stale_queue) + (select count(*) from stale_parked) >= $2
        as more
