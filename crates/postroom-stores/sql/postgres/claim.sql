-- Leases work to an owner.
-- $1 now, $2 owner, $3 fresh token, $4 lease in microseconds, $5 batch, $6 suspects at most,
-- $7 attempts at which a suspect is dead, $8 place in the queue to start from: what lies before it
-- is left to another claim. 0 looks at everything. $9 topics to leave out, paused ones included,
-- $10 what the caller believes to be paused: topics, null for the whole queue.
--
-- Pauses are read here and not before: after the commit of one nothing of it is claimed. When they
-- are not what the caller believes, nothing is taken, and the answer says what they are. So the
-- scans get them as a parameter; asked for by each scan, they would cost a third of a claim.
--
-- Order: priority, then what waited for its time, then place. Each scan is limited by what the
-- scans before it found, so that nothing is locked that is not taken (B19). Only where waiting and
-- queued rows of a priority other than 0 are merged, a surplus stays locked until the statement
-- ends. Rows are taken by their state, never by a cursor: commits become visible out of order
-- (B38). Ordered rows are for claim_ordered; this only says whether there are any.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
-- By the conditions of the table's index.
control as materialized (
    select array(
        select topic_hash
        from postroom.outbox_control
        where coalesce(topic, '') >= ''
        order by coalesce(topic, '')
    ) as paused
),
high_queue as materialized (
    select seq, id, priority, token, owner, attempts, lost, expires_at
    from postroom.outbox_queue_plain
    where priority <> 0
        and -priority < 0
        and token is null
        and lost = 0
        and topic_hash <> all($9::bigint[])
    order by -priority, seq
    limit $5::integer
    for update skip locked
),
high_parked as materialized (
    select seq, id, priority, wake_at, attempts, lost, expires_at
    from postroom.outbox_parked
    where slot is null
        and priority > 0
        and wake_at <= (select now from clock)
        and lost = 0
        and topic_hash <> all($9::bigint[])
    order by priority desc, wake_at, seq
    limit $5::integer
    for update skip locked
),
-- A suspect behind the last row of a full scan can not be taken: it is not even looked at, so that
-- the search for suspects costs what is in flight, not what is in the backlog.
high_queue_suspect as materialized (
    select seq, id, priority, token, owner, attempts, lost, expires_at
    from postroom.outbox_queue_plain
    where priority <> 0
        and (
            token is not null and locked_until <= (select now from clock)
            or token is null and lost > 0
        )
        and topic_hash <> all($9::bigint[])
        and (-priority, seq) < (
            (select case when count(*) = $5 then max(-priority) else 0 end from high_queue),
            (
                select max(seq)
                from high_queue
                where priority = (select min(priority) from high_queue)
            )
        )
    order by -priority, seq
    limit $6::integer
    for update skip locked
),
high_parked_suspect as materialized (
    select seq, id, priority, wake_at, attempts, lost, expires_at
    from postroom.outbox_parked
    where slot is null
        and priority > 0
        and wake_at <= (select now from clock)
        and lost > 0
        and topic_hash <> all($9::bigint[])
    order by priority desc, wake_at, seq
    limit $6::integer
    for update skip locked
),
zero_room as materialized (
    select
        greatest(0, $5 - fresh - least($6, suspects)) as places,
        greatest(0, $6 - suspects) as suspects
    from (
        select
            (select count(*) from high_queue) + (select count(*) from high_parked) as fresh,
            (select count(*) from high_queue_suspect)
                + (select count(*) from high_parked_suspect) as suspects
    ) as high
),
zero_parked as materialized (
    select seq, id, priority, wake_at, attempts, lost, expires_at
    from postroom.outbox_parked
    where slot is null
        and priority = 0
        and wake_at <= (select now from clock)
        and lost = 0
        and topic_hash <> all($9::bigint[])
    order by wake_at, seq
    limit (select places from zero_room)
    for update skip locked
),
zero_parked_suspect as materialized (
    select seq, id, priority, wake_at, attempts, lost, expires_at
    from postroom.outbox_parked
    where slot is null
        and priority = 0
        and wake_at <= (
            select
                case
                    when count(*) = (select places from zero_room) then max(wake_at)
                    else (select now from clock)
                end
            from zero_parked
        )
        and lost > 0
        and topic_hash <> all($9::bigint[])
    order by wake_at, seq
    limit (select least(places, suspects) from zero_room)
    for update skip locked
),
zero_queue_room as materialized (
    select
        places
            - (select count(*) from zero_parked)
            - (select count(*) from zero_parked_suspect) as places,
        suspects - (select count(*) from zero_parked_suspect) as suspects
    from zero_room
),
zero_queue as materialized (
    select seq, id, priority, token, owner, attempts, lost, expires_at
    from postroom.outbox_queue_plain
    where priority = 0
        and seq >= $8::bigint
        and token is null
        and lost = 0
        and topic_hash <> all($9::bigint[])
    order by seq
    limit (select greatest(0, places) from zero_queue_room)
    for update skip locked
),
zero_queue_suspect as materialized (
    select seq, id, priority, token, owner, attempts, lost, expires_at
    from postroom.outbox_queue_plain
    where priority = 0
        and (
            token is not null and locked_until <= (select now from clock)
            or token is null and lost > 0
        )
        and topic_hash <> all($9::bigint[])
        and seq >= $8::bigint
        and seq < (
            select
                case
                    when count(*) >= (select places from zero_queue_room) then coalesce(max(seq), 0)
                    else 9223372036854775807
                end
            from zero_queue
        )
    order by seq
    limit (select suspects from zero_queue_room)
    for update skip locked
),
low_room as materialized (
    select
        greatest(
            0,
            places
                - (select count(*) from zero_queue)
                - (select count(*) from zero_queue_suspect)
        ) as places,
        suspects - (select count(*) from zero_queue_suspect) as suspects
    from zero_queue_room
),
low_queue as materialized (
    select seq, id, priority, token, owner, attempts, lost, expires_at
    from postroom.outbox_queue_plain
    where priority <> 0
        and -priority > 0
        and token is null
        and lost = 0
        and topic_hash <> all($9::bigint[])
    order by -priority, seq
    limit (select places from low_room)
    for update skip locked
),
low_parked as materialized (
    select seq, id, priority, wake_at, attempts, lost, expires_at
    from postroom.outbox_parked
    where slot is null
        and priority < 0
        and wake_at <= (select now from clock)
        and lost = 0
        and topic_hash <> all($9::bigint[])
    order by priority desc, wake_at, seq
    limit (select places from low_room)
    for update skip locked
),
low_queue_suspect as materialized (
    select seq, id, priority, token, owner, attempts, lost, expires_at
    from postroom.outbox_queue_plain
    where priority <> 0
        and -priority > 0
        and (
            token is not null and locked_until <= (select now from clock)
            or token is null and lost > 0
        )
        and topic_hash <> all($9::bigint[])
        and (-priority, seq) < (
            (
                select
                    case
                        when count(*) = (select places from low_room) then max(-priority)
                        else 32767
                    end
                from low_queue
            ),
            (
                select max(seq)
                from low_queue
                where priority = (select min(priority) from low_queue)
            )
        )
    order by -priority, seq
    limit (select least(places, suspects) from low_room)
    for update skip locked
),
low_parked_suspect as materialized (
    select seq, id, priority, wake_at, attempts, lost, expires_at
    from postroom.outbox_parked
    where slot is null
        and priority < 0
        and wake_at <= (select now from clock)
        and lost > 0
        and topic_hash <> all($9::bigint[])
    order by priority desc, wake_at, seq
    limit (select least(places, suspects) from low_room)
    for update skip locked
),
queue_row as (
    select *, false as suspect from high_queue
    union all select *, false from zero_queue
    union all select *, false from low_queue
    union all select *, true from high_queue_suspect
    union all select *, true from zero_queue_suspect
    union all select *, true from low_queue_suspect
),
parked_row as (
    select *, false as suspect from high_parked
    union all select *, false from zero_parked
    union all select *, false from low_parked
    union all select *, true from high_parked_suspect
    union all select *, true from zero_parked_suspect
    union all select *, true from low_parked_suspect
),
candidate as (
    select
        seq, id, priority, false as parked, null::timestamptz as wake_at,
        token is not null as taken_over, owner as old_owner, attempts, lost, expires_at, suspect
    from queue_row
    union all
    select
        seq, id, priority, true, wake_at,
        false, null, attempts, lost, expires_at, suspect
    from parked_row
),
picked as materialized (
    select *
    from (
        select
            candidate.*,
            row_number() over (
                partition by suspect
                order by priority desc, parked desc, wake_at, seq
            ) as place_among_its_kind
        from candidate
    ) as numbered
    where (select paused from control) = $10::bigint[]
        and array_position($10::bigint[], null) is null
        and (not suspect or place_among_its_kind <= $6)
    order by priority desc, parked desc, wake_at, seq
    limit $5
),
-- lifecycle::after_lost_lease: the first lost lease adds no attempt, every further one does.
verdict as materialized (
    select
        seq, id, priority, parked, wake_at, suspect, taken_over, old_owner,
        attempts + (taken_over and lost > 0)::integer as attempts,
        lost + taken_over::integer as lost,
        case
            when expires_at <= (select now from clock) then 4
            when taken_over and lost > 0 and attempts + 1 >= $7::integer then 3
        end as dead_reason
    from picked
),
-- By primary key and array: with a join the plan would hang on a guessed row count.
leased as (
    update postroom.outbox_queue_plain
    set token = $3::uuid,
        owner = $2::uuid,
        locked_until = (select now from clock) + $4::bigint * interval '1 microsecond',
        attempts = attempts + (token is not null and lost > 0)::integer,
        lost = lost + (token is not null)::integer
    where seq = any(array(select seq from verdict where not parked and dead_reason is null))
),
died as (
    delete from postroom.outbox_queue_plain
    where seq = any(array(select seq from verdict where not parked and dead_reason is not null))
),
woken as (
    delete from postroom.outbox_parked
    where seq = any(array(select seq from verdict where parked))
    returning *
),
-- As leased: nothing becomes ready at a place that claims have already passed.
moved as (
    insert into postroom.outbox_queue_plain (
        seq, topic_hash, key_hash, tenant_hash, locked_until, expires_at,
        id, token, owner, attempts, lost, slot, priority
    )
    select
        seq, topic_hash, key_hash, tenant_hash,
        (select now from clock) + $4::bigint * interval '1 microsecond',
        expires_at,
        id, $3::uuid, $2::uuid, attempts, lost, slot, priority
    from woken
    where expires_at is null
        or expires_at > (select now from clock)
),
buried as (
    insert into postroom.outbox_settled (
        seq, settled_at, id, settled_by, attempts, lost, state, reason
    )
    select seq, (select now from clock), id, $2::uuid, attempts, lost, 2, dead_reason
    from verdict
    where dead_reason is not null
),
recorded as (
    insert into postroom.outbox_attempt (id, n, at, by_owner, kind)
    select
        id,
        (select coalesce(max(n), 0) + 1 from postroom.outbox_attempt as a where a.id = verdict.id),
        (select now from clock),
        old_owner,
        2
    from verdict
    where taken_over
)
-- One row at least, because the count of the dead is part of the answer. A message that is not
-- there is answered all the same and found undecodable.
select
    (select paused from control) as paused,
    (select count(*) from verdict where dead_reason is not null) as dead,
    (
        select max(seq)
        from verdict
        where not parked and not suspect and priority = 0
    ) as passed,
    (select count(*) from verdict) as taken,
    (select count(*) from verdict where suspect) as suspects,
    exists (select from postroom.outbox_queue_ordered)
        or exists (
            select
            from postroom.outbox_parked
            where slot is not null and wake_at <= (select now from clock)
        ) as ordered_work,
    (select now from clock) as claimed_at,
    (select now from clock) + $4::bigint * interval '1 microsecond' as locked_until,
    item.seq,
    item.attempts,
    item.lost,
    message.created_at,
    message.id,
    message.topic,
    message.payload,
    message.content_type,
    message.headers::text as headers,
    message.aggregate_type,
    message.aggregate_id,
    message.ordering_key,
    message.tenant_id,
    message.correlation_id,
    message.causation_id,
    message.idempotency_key,
    message.occurred_at,
    message.due_at,
    message.expires_at,
    message.priority,
    message.source,
    message.source_id,
    message.consumer
from (values (true)) as one (row)
left join (
    select *
    from verdict
    where dead_reason is null
) as item on true
left join lateral (
    select *
    from postroom.outbox_message
    where id = item.id
    limit 1
) as message on true
order by item.priority desc, item.parked desc, item.wake_at, item.seq
