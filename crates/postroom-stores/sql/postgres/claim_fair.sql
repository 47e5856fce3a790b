-- Leases work to an owner, the tenants in turn: see postroom_core::store::tenants.
-- $1 now, $2 owner, $3 fresh token, $4 lease in microseconds, $5 batch, $6 suspects at most,
-- $7 attempts at which a suspect is dead, $8 tenant to begin behind, $9 topics to leave out, paused
-- ones included, $10 what the caller believes to be paused, $11 tenants to visit at most, $12
-- tenants with waiting rows to look at.
--
-- As claim.sql, except for how rows are chosen: tenants are found by steps along an index, each a
-- search for the next one, from the highest hash down and around. From above, because the newest
-- row of a tenant with a backlog is ready, while its oldest ones are leased, or gone and not yet
-- vacuumed. Then each gives its part. No part knows of a place to start from: below the place that
-- claims of one tenant have passed lie the rows of all others.
--
-- seq + 0 is the place by the index of tenants: by the primary key, rows of all others lie on the
-- way. Each scan is limited by its tenant's part. What came due and what is queued are merged then,
-- so where a tenant has both, a surplus stays locked until the statement ends.
with recursive
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
-- Mostly nothing is due, and nobody has to be looked for.
due as materialized (
    select
        exists (
            select
            from postroom.outbox_parked
            where slot is null and priority > 0 and wake_at <= (select now from clock)
        ) as high,
        exists (
            select
            from postroom.outbox_parked
            where slot is null and priority = 0 and wake_at <= (select now from clock)
        ) as zero,
        exists (
            select
            from postroom.outbox_parked
            where slot is null and priority < 0 and wake_at <= (select now from clock)
        ) as low
),
-- Below $8 to the lowest, then from the highest down to $8.
queue_walk (tenant, place) as (
    select $8::bigint, 0
    union all
    select
        coalesce(
            (
                select coalesce(tenant_hash, '-9223372036854775808'::bigint)
                from postroom.outbox_queue_plain
                where coalesce(tenant_hash, '-9223372036854775808'::bigint) < here.tenant
                    and coalesce(tenant_hash, '-9223372036854775808'::bigint) >= case
                        when here.place > 0 and here.tenant >= $8 then $8
                        else '-9223372036854775808'::bigint
                    end
                    and topic_hash <> all($9::bigint[])
                    and (
                        token is null and lost = 0
                        or $6 > 0 and (token is null or locked_until <= (select now from clock))
                    )
                order by
                    coalesce(tenant_hash, '-9223372036854775808'::bigint) desc,
                    -priority desc,
                    seq + 0 desc
                limit 1
            ),
            case
                when here.place = 0 or here.tenant < $8 then (
                    select coalesce(tenant_hash, '-9223372036854775808'::bigint)
                    from postroom.outbox_queue_plain
                    where coalesce(tenant_hash, '-9223372036854775808'::bigint) >= $8
                        and topic_hash <> all($9::bigint[])
                        and (
                            token is null and lost = 0
                            or $6 > 0 and (token is null or locked_until <= (select now from clock))
                        )
                    order by
                        coalesce(tenant_hash, '-9223372036854775808'::bigint) desc,
                        -priority desc,
                        seq + 0 desc
                    limit 1
                )
            end
        ),
        here.place + 1
    from queue_walk as here
    where here.tenant is not null and here.place < $11::integer
),
-- Of those with waiting rows, whether due or not.
parked_walk (tenant, place) as (
    select $8::bigint, 0
    from due
    where high or zero or low
    union all
    select
        coalesce(
            (
                select coalesce(tenant_hash, '-9223372036854775808'::bigint)
                from postroom.outbox_parked
                where coalesce(tenant_hash, '-9223372036854775808'::bigint) < here.tenant
                    and coalesce(tenant_hash, '-9223372036854775808'::bigint) >= case
                        when here.place > 0 and here.tenant >= $8 then $8
                        else '-9223372036854775808'::bigint
                    end
                    and slot is null
                order by
                    coalesce(tenant_hash, '-9223372036854775808'::bigint) desc
                limit 1
            ),
            case
                when here.place = 0 or here.tenant < $8 then (
                    select coalesce(tenant_hash, '-9223372036854775808'::bigint)
                    from postroom.outbox_parked
                    where coalesce(tenant_hash, '-9223372036854775808'::bigint) >= $8
                        and slot is null
                    order by
                        coalesce(tenant_hash, '-9223372036854775808'::bigint) desc
                    limit 1
                )
            end
        ),
        here.place + 1
    from parked_walk as here
    where here.tenant is not null and here.place < $12::integer
),
looked_at as materialized (
    select tenant
    from parked_walk
    where place > 0 and tenant is not null
),
-- Where the look at waiting rows ended before it was around: nobody behind it is visited.
looked_until as materialized (
    select tenant
    from looked_at
    where (select count(*) from looked_at) = $12
    order by tenant < $8, tenant
    limit 1
),
found as materialized (
    select tenant
    from (
        select tenant from queue_walk where place > 0
        union
        select looked_at.tenant
        from looked_at
        cross join (values (-1), (0), (1)) as band (sign)
        where exists (
            select
            from postroom.outbox_parked
            where slot is null
                and coalesce(tenant_hash, '-9223372036854775808'::bigint) = looked_at.tenant
                and greatest(-1, least(1, -priority)) = band.sign
                and wake_at <= (select now from clock)
                and (lost = 0 or $6 > 0)
                and topic_hash <> all($9::bigint[])
            -- Kept as it is: as a join it would read what is due of everybody.
            offset 0
        )
    ) as either
    where tenant is not null
        and not exists (
            select
            from looked_until as until
            where (either.tenant >= $8, -(either.tenant::numeric))
                > (until.tenant >= $8, -(until.tenant::numeric))
        )
    order by tenant >= $8, tenant desc
    limit $11
),
visit as materialized (
    select
        tenant,
        place,
        ($5::integer / tenants + (place < $5 % tenants)::integer)::integer as part
    from (
        select
            tenant,
            row_number() over (order by tenant >= $8, tenant desc) - 1 as place,
            count(*) over () as tenants
        from found
    ) as numbered
),
queue_fresh as materialized (
    select visit.place, visit.part, chosen.*
    from visit
    cross join lateral (
        select seq, id, priority, token, owner, attempts, lost, expires_at
        from postroom.outbox_queue_plain
        where coalesce(tenant_hash, '-9223372036854775808'::bigint) = visit.tenant
            and token is null
            and lost = 0
            and topic_hash <> all($9::bigint[])
        order by -priority, seq + 0
        limit visit.part
        for update skip locked
    ) as chosen
),
-- A suspect behind the last row of a full part can not be taken: it is not even looked at. Two
-- scans, because a comparison of both columns would be asked of each row of the tenant.
edge as materialized (
    select
        visit.tenant,
        visit.place,
        visit.part,
        case when count(seq) = visit.part then max(-priority) else 32767 end as band,
        (array_agg(seq order by -priority desc, seq desc))[1] as seq
    from visit
    left join queue_fresh using (place)
    group by visit.tenant, visit.place, visit.part
),
band_suspect as materialized (
    select edge.place, edge.part, chosen.*
    from edge
    cross join lateral (
        select seq, id, priority, token, owner, attempts, lost, expires_at
        from postroom.outbox_queue_plain
        where coalesce(tenant_hash, '-9223372036854775808'::bigint) = edge.tenant
            and -priority < edge.band
            and (
                token is not null and locked_until <= (select now from clock)
                or token is null and lost > 0
            )
            and topic_hash <> all($9::bigint[])
        order by -priority, seq + 0
        limit $6::integer
        for update skip locked
    ) as chosen
),
edge_suspect as materialized (
    select edge.place, edge.part, chosen.*
    from edge
    cross join lateral (
        select seq, id, priority, token, owner, attempts, lost, expires_at
        from postroom.outbox_queue_plain
        where coalesce(tenant_hash, '-9223372036854775808'::bigint) = edge.tenant
            and -priority = edge.band
            and seq + 0 < edge.seq
            and (
                token is not null and locked_until <= (select now from clock)
                or token is null and lost > 0
            )
            and topic_hash <> all($9::bigint[])
        order by -priority, seq + 0
        limit $6::integer
        for update skip locked
    ) as chosen
),
high_parked as materialized (
    select visit.place, visit.part, chosen.*
    from visit
    cross join lateral (
        select seq, id, priority, wake_at, attempts, lost, expires_at
        from postroom.outbox_parked
        where slot is null
            and coalesce(tenant_hash, '-9223372036854775808'::bigint) = visit.tenant
            and greatest(-1, least(1, -priority)) = -1
            and wake_at <= (select now from clock)
            and lost = 0
            and topic_hash <> all($9::bigint[])
        order by priority desc, wake_at, seq
        limit visit.part
        for update skip locked
    ) as chosen
    where (select high from due)
),
zero_parked as materialized (
    select visit.place, visit.part, chosen.*
    from visit
    cross join lateral (
        select seq, id, priority, wake_at, attempts, lost, expires_at
        from postroom.outbox_parked
        where slot is null
            and coalesce(tenant_hash, '-9223372036854775808'::bigint) = visit.tenant
            and greatest(-1, least(1, -priority)) = 0
            and wake_at <= (select now from clock)
            and lost = 0
            and topic_hash <> all($9::bigint[])
        order by wake_at, seq
        limit visit.part
        for update skip locked
    ) as chosen
    where (select zero from due)
),
low_parked as materialized (
    select visit.place, visit.part, chosen.*
    from visit
    cross join lateral (
        select seq, id, priority, wake_at, attempts, lost, expires_at
        from postroom.outbox_parked
        where slot is null
            and coalesce(tenant_hash, '-9223372036854775808'::bigint) = visit.tenant
            and greatest(-1, least(1, -priority)) = 1
            and wake_at <= (select now from clock)
            and lost = 0
            and topic_hash <> all($9::bigint[])
        order by priority desc, wake_at, seq
        limit visit.part
        for update skip locked
    ) as chosen
    where (select low from due)
),
zero_parked_suspect as materialized (
    select visit.place, visit.part, chosen.*
    from (
        select
            visit.tenant,
            visit.place,
            visit.part,
            case
                when count(seq) = visit.part then max(wake_at)
                else (select now from clock)
            end as last_wake
        from visit
        left join zero_parked using (place)
        group by visit.tenant, visit.place, visit.part
    ) as visit
    cross join lateral (
        select seq, id, priority, wake_at, attempts, lost, expires_at
        from postroom.outbox_parked
        where slot is null
            and coalesce(tenant_hash, '-9223372036854775808'::bigint) = visit.tenant
            and greatest(-1, least(1, -priority)) = 0
            and wake_at <= visit.last_wake
            and lost > 0
            and topic_hash <> all($9::bigint[])
        order by wake_at, seq
        limit $6::integer
        for update skip locked
    ) as chosen
    where (select zero from due)
),
other_parked_suspect as materialized (
    select visit.place, visit.part, chosen.*
    from visit
    cross join (values (-1), (1)) as band (sign)
    cross join lateral (
        select seq, id, priority, wake_at, attempts, lost, expires_at
        from postroom.outbox_parked
        where slot is null
            and coalesce(tenant_hash, '-9223372036854775808'::bigint) = visit.tenant
            and greatest(-1, least(1, -priority)) = band.sign
            and wake_at <= (select now from clock)
            and lost > 0
            and topic_hash <> all($9::bigint[])
        order by priority desc, wake_at, seq
        limit $6::integer
        for update skip locked
    ) as chosen
    where (select high or low from due)
),
queue_row as (
    select *, false as suspect from queue_fresh
    union all select *, true from band_suspect
    union all select *, true from edge_suspect
),
parked_row as (
    select *, false as suspect from high_parked
    union all select *, false from zero_parked
    union all select *, false from low_parked
    union all select *, true from zero_parked_suspect
    union all select *, true from other_parked_suspect
),
candidate as (
    select
        place, part, seq, id, priority, false as parked, null::timestamptz as wake_at,
        token is not null as taken_over, owner as old_owner, attempts, lost, expires_at, suspect
    from queue_row
    union all
    select
        place, part, seq, id, priority, true, wake_at,
        false, null, attempts, lost, expires_at, suspect
    from parked_row
),
-- Suspects are counted from tenant to tenant, those within their tenant's part; what lies behind
-- one that is left out moves up.
ranked as (
    select
        candidate.*,
        row_number() over (
            partition by place
            order by priority desc, parked desc, wake_at, seq
        ) as rank
    from candidate
),
allowed as (
    select
        ranked.*,
        row_number() over (partition by suspect and rank <= part order by place, rank) as turn
    from ranked
),
picked as materialized (
    select *
    from (
        select
            place, part, seq, id, priority, parked, wake_at, taken_over, old_owner, attempts, lost,
            expires_at, suspect,
            row_number() over (partition by place order by rank) as rank
        from allowed
        where not suspect
            or rank <= part and turn <= $6
    ) as numbered
    where (select paused from control) = $10::bigint[]
        and array_position($10::bigint[], null) is null
        and rank <= part
),
-- lifecycle::after_lost_lease: the first lost lease adds no attempt, every further one does.
verdict as materialized (
    select
        place, part, rank, seq, id, priority, parked, wake_at, suspect, taken_over, old_owner,
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
    (select tenant from visit where place = 0) as first_tenant,
    coalesce(
        (select tenant from visit where place = $11 - 1),
        (select tenant from looked_until)
    ) as last_tenant,
    (select count(*) from visit) < $11 and not exists (select from looked_until) as was_all,
    exists (
        select
        from verdict
        group by place, part
        having count(*) = part
    ) as is_more,
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
order by item.rank, item.place
