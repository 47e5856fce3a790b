-- Settles leased items, mixed outcomes in one go.
-- $1 now, $2 owner; then one array per field: $3 seqs, $4 tokens, $5 kinds (1 done, 2 dead,
-- 3 retry, 4 release), $6 delays in microseconds, $7 counted, $8 reasons, $9 errors;
-- $10 keep done messages, $11 a dead ordered row stops its key. Answers with what was applied.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
-- In the order of the queue, so that two settles do not deadlock.
item as materialized (
    select *
    from unnest(
        $3::bigint[], $4::uuid[], $5::smallint[], $6::bigint[], $7::boolean[],
        $8::smallint[], $9::text[]
    ) as given (seq, token, kind, delay, counted, reason, error)
    order by seq
),
-- The fence: an item that was taken over has another token, and after waiting for its lock this
-- reads the new one (B13).
held as materialized (
    select
        row.*, item.kind, item.counted, item.reason, item.error,
        row.attempts + item.counted::integer as attempts_now,
        least(
            (select now from clock) + item.delay * interval '1 microsecond',
            timestamptz '9999-12-31 23:59:59+00'
        ) as wake_at
    from item
    cross join lateral (
        select seq, id, topic_hash, key_hash, tenant_hash, slot, priority, token,
            attempts, lost, expires_at
        from postroom.outbox_queue
        where seq = item.seq
            and token = item.token
            and owner = $2::uuid
        for update
    ) as row
),
gone as (
    delete from postroom.outbox_queue
    where seq = any(array(
        select seq
        from held
        where kind in (1, 2) or kind = 3 and slot is null
    ))
),
released as (
    update postroom.outbox_queue
    set token = null,
        owner = null,
        locked_until = null
    where seq = any(array(select seq from held where kind = 4))
),
-- An ordered row waits where it is, so that the head of its key stays its lowest row.
waiting as (
    update postroom.outbox_queue_ordered as queue
    set token = null,
        owner = null,
        locked_until = held.wake_at,
        attempts = held.attempts_now
    from held
    where queue.seq = any(array(select seq from held where kind = 3 and slot is not null))
        and held.seq = queue.seq
),
parked as (
    insert into postroom.outbox_parked (
        seq, topic_hash, key_hash, tenant_hash, wake_at, expires_at,
        id, attempts, lost, slot, priority
    )
    select
        seq, topic_hash, key_hash, tenant_hash, wake_at, expires_at,
        id, attempts_now, lost, slot, priority
    from held
    where kind = 3
        and slot is null
),
settled as (
    insert into postroom.outbox_settled (
        seq, settled_at, id, settled_by, attempts, lost, state, reason
    )
    select
        seq, (select now from clock), id, $2::uuid, attempts_now, lost, kind,
        case when kind = 2 then reason end
    from held
    where kind = 2
        or kind = 1 and $10::boolean
),
halted as (
    insert into postroom.outbox_halt (seq, key_hash, slot)
    select seq, key_hash, slot
    from held
    where kind = 2
        and slot is not null
        and $11::boolean
),
recorded as (
    insert into postroom.outbox_attempt (id, n, at, by_owner, kind, error)
    select
        id,
        (select coalesce(max(n), 0) + 1 from postroom.outbox_attempt as a where a.id = held.id),
        (select now from clock),
        $2::uuid,
        1,
        error
    from held
    where counted
        and kind in (2, 3)
),
forgotten as (
    delete from postroom.outbox_message
    where id = any(array(select id from held where kind = 1 and not $10::boolean))
),
forgotten_attempt as (
    delete from postroom.outbox_attempt
    where id = any(array(select id from held where kind = 1 and not $10::boolean))
),
-- The retention of a key starts now, and its message will not be there to tell.
key_settled as (
    update postroom.outbox_key
    set settled_at = (select now from clock)
    where message_id = any(array(select id from held where kind = 1 and not $10::boolean))
),
-- Joins are counted where rows of settled are written; these leave none.
counted as materialized (
    select postroom.outbox_count_done(array_agg(id), (select now from clock)) as is_done
    from held
    where kind = 1
        and not $10::boolean
)
select seq, token
from held
where (select is_done from counted)
