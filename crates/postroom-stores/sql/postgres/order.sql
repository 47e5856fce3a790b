-- Claims of ordered rows, as functions: each statement in them sees what was committed before it
-- began. That matters. A slot is locked first, so that its owner is the only one who claims there,
-- and the statement that decides comes after: it must see the leases that others wrote until then.

-- Frees slots, but those in which the owner holds rows.
create or replace function postroom.outbox_free_slots(given_owner uuid, given smallint[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
declare
    -- Whoever has a slot locked is claiming there.
    idle smallint[] := array(
        select slot
        from postroom.outbox_slot
        where slot = any(given) and owner = given_owner
        order by slot
        for update skip locked
    );
begin
    update postroom.outbox_slot as mine
    set owner = null,
        locked_until = null
    where mine.slot = any(idle)
        and not exists (
            select
            from postroom.outbox_queue_ordered as row
            where row.slot = mine.slot and row.token is not null and row.owner = given_owner
        );
end
$body$;

create or replace function postroom.outbox_leave(given_owner uuid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
begin
    delete from postroom.outbox_node
    where owner = given_owner;
    delete from postroom.outbox_dispatcher
    where owner = given_owner;
    perform postroom.outbox_free_slots(
        given_owner,
        array(select slot from postroom.outbox_slot where owner = given_owner)
    );
end
$body$;

-- Gives an owner its fair share of the slots, and answers with those that it may use, and until
-- when at least.
create or replace function postroom.outbox_join(
    given_owner uuid, now timestamptz, lease bigint, out mine smallint[], out until timestamptz
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
declare
    renewed timestamptz := now + lease * interval '1 microsecond';
    -- Renewed seldom, so that a claim writes nothing here.
    stale timestamptz := now + lease / 3 * 2 * interval '1 microsecond';
    share integer;
    free smallint[];
begin
    if not exists (
        select from postroom.outbox_node where owner = given_owner and live_until >= stale
    ) then
        insert into postroom.outbox_node (owner, live_until)
        values (given_owner, renewed)
        on conflict (owner) do update
        set live_until = excluded.live_until;
        delete from postroom.outbox_node
        where live_until < now - interval '1 day';
    end if;
    share := (
        select ceil(256.0 / count(*))
        from postroom.outbox_node
        where live_until > now
    );
    select coalesce(array_agg(slot order by slot), '{}'), min(locked_until)
    into mine, until
    from postroom.outbox_slot
    where owner = given_owner and locked_until > now;
    if cardinality(mine) > share then
        perform postroom.outbox_free_slots(given_owner, mine[share + 1:]);
        mine := mine[:share];
        until := (select min(locked_until) from postroom.outbox_slot where slot = any(mine));
    end if;
    if until < stale then
        update postroom.outbox_slot
        set locked_until = renewed
        where slot = any(mine)
            and owner = given_owner
            and locked_until > now
            and locked_until < stale;
        until := (select min(locked_until) from postroom.outbox_slot where slot = any(mine));
    end if;
    if cardinality(mine) < share then
        free := array(
            select slot
            from postroom.outbox_slot
            where locked_until is null or locked_until <= now
            order by slot
            limit share - cardinality(mine)
            for update skip locked
        );
        update postroom.outbox_slot
        set owner = given_owner,
            locked_until = renewed
        where slot = any(free);
        mine := mine || free;
    end if;
    until := least(until, renewed);
end
$body$;

create or replace function postroom.outbox_claim_ordered(
    timestamptz, uuid, uuid, bigint, integer, integer, integer, smallint, bigint, bigint[],
    bigint[], boolean, integer
)
returns table (
    last_slot smallint, last_key bigint, taken bigint, suspects bigint, dead bigint,
    claimed_at timestamptz, locked_until timestamptz, slot smallint, key_hash bigint,
    seq bigint, attempts integer, lost integer, created_at timestamptz,
    id uuid, topic text, payload bytea, content_type text, headers text,
    aggregate_type text, aggregate_id text, ordering_key text, tenant_id text,
    correlation_id text, causation_id text, idempotency_key uuid,
    occurred_at timestamptz, due_at timestamptz, expires_at timestamptz, priority smallint,
    source text, source_id text, consumer text
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
declare
    present timestamptz := coalesce($1, clock_timestamp());
    -- The rule of order::keys_wanted.
    wanted integer := ceil($5 / 4.0);
    behind_slot smallint := coalesce($8, 0);
    behind_key bigint := coalesce($9, -9223372036854775808);
    first_slot smallint;
    usable smallint[];
    until timestamptz;
    filled smallint[];
    locked smallint[];
    left_out bigint[];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'ordered messages are claimed at isolation level read committed'
            using errcode = 'invalid_transaction_state';
    end if;
    if exists (select from postroom.outbox_control where coalesce(topic, '') = '') then
        return;
    end if;
    -- What came due takes its place, as ready.
    with
    due as (
        delete from postroom.outbox_parked
        where seq = any(array(
            select seq
            from postroom.outbox_parked
            where slot is not null and wake_at <= present
            order by wake_at, seq
            limit $13
            for update skip locked
        ))
        returning *
    )
    insert into postroom.outbox_queue_ordered (
        seq, topic_hash, key_hash, tenant_hash, expires_at,
        id, attempts, lost, slot, priority
    )
    select
        seq, topic_hash, key_hash, tenant_hash, expires_at,
        id, attempts, lost, slot, priority
    from due;
    -- From here, because it is likely that there is something near. From the beginning, one would
    -- have to walk over all that was settled since the last vacuum.
    first_slot := (
        select slot
        from postroom.outbox_queue_ordered
        where (slot, key_hash) > (behind_slot, behind_key)
        order by slot, key_hash, seq
        limit 1
    );
    if first_slot is null and not exists (select from postroom.outbox_queue_ordered) then
        return;
    end if;
    -- No row is leased for longer than its slot.
    select share.mine, share.until
    into usable, until
    from postroom.outbox_join($2, present, $4) as share;
    -- The slots of this stretch: those with rows, no more than there are keys wanted.
    filled := array(
        with recursive filled (slot) as (
            select first_slot
            union all
            select (
                select row.slot
                from postroom.outbox_queue_ordered as row
                where row.slot > filled.slot
                order by row.slot, row.key_hash, row.seq
                limit 1
            )
            from filled
            where filled.slot is not null
        )
        select slot
        from filled
        where slot = any(usable)
        limit least(wanted, 64)
    );
    locked := array(
        select slot
        from postroom.outbox_slot
        where slot = any(filled) and owner = $2 and locked_until > present
        order by slot
        for update skip locked
    );
    -- Read last: whatever was waited for until here, a pause counts from its commit.
    left_out := $11 || array(
        select topic_hash from postroom.outbox_control where coalesce(topic, '') > ''
    );
    return query
    with recursive
    -- From key to key, not from row to row: what waits behind a key costs nothing.
    visit (slot, key_hash, seq, is_open, is_suspect, visits, opens, suspects) as (
        select
            behind_slot, behind_key, 0::bigint,
            false, false, 0, 0, 0
        union all
        select
            head.slot,
            -- The slots of others are left out as a whole.
            case when head.is_mine then head.key_hash else 9223372036854775807 end,
            head.seq,
            head.is_open,
            head.is_suspect,
            visit.visits + head.is_mine::integer,
            visit.opens + head.is_open::integer,
            visit.suspects + (head.is_open and head.is_suspect)::integer
        from visit
        cross join lateral (
            select
                *,
                is_mine
                    -- It waits, or somebody has it.
                    and (locked_until is null or locked_until <= present)
                    and (not is_suspect or visit.suspects < $6)
                    and topic_hash <> all(left_out)
                    and not exists (
                        select
                        from postroom.outbox_halt as halt
                        where halt.slot = first.slot and halt.key_hash = first.key_hash
                    )
                    -- A row that committed late may lie in front of one that the owner has.
                    and case
                        when $10 is null then not exists (
                            select
                            from postroom.outbox_queue_ordered as row
                            where row.slot = first.slot
                                and row.key_hash = first.key_hash
                                and row.token is not null
                                and row.locked_until > present
                        )
                        else first.key_hash not in (select unnest($10))
                    end as is_open
            from (
                select
                    slot, key_hash, seq, topic_hash, locked_until,
                    slot = any(locked) as is_mine,
                    token is not null or lost > 0 as is_suspect
                from postroom.outbox_queue_ordered
                where (slot, key_hash) > (visit.slot, visit.key_hash)
                order by slot, key_hash, seq
                limit 1
            ) as first
            -- Or every mention of is_open would look again.
            offset 0
        ) as head
        where visit.opens < wanted
            and visit.visits < 1000
            and head.slot <= (select max(given) from unnest(filled) as given)
    ),
    visited as materialized (
        select * from visit
    ),
    -- The rule of order::run_length.
    longest as materialized (
        select
            greatest(
                4,
                least(
                    ceil($5::numeric / greatest(1, max(opens))),
                    ceil($13::numeric / greatest(1, max(opens) + coalesce(cardinality($10), 0)))
                )
            )::integer as rows
        from visited
    ),
    -- Locked, because the last holder of an expired lease may be settling it right now.
    run as materialized (
        select
            row.*, visited.visits as turn,
            (row.locked_until is null or row.locked_until <= present)
                and row.topic_hash <> all(left_out)
                and (
                    row.seq = visited.seq
                    or row.token is null and row.lost = 0 and not visited.is_suspect
                ) as is_free,
            coalesce(row.expires_at <= present, false) as has_expired
        from visited
        cross join lateral (
            select
                seq, id, slot, key_hash, topic_hash, token, owner, locked_until, attempts, lost,
                expires_at
            from postroom.outbox_queue_ordered
            where slot = visited.slot and key_hash = visited.key_hash and seq >= visited.seq
            order by seq
            limit (select rows from longest)
            for update
        ) as row
        where visited.is_open
    ),
    -- The first row that can not be taken ends the run, and so does one that stops its key. Nearly
    -- always there is none.
    cut as materialized (
        select turn, min(case when is_free then seq + 1 else seq end) as seq
        from run
        where not is_free or $12 and has_expired
        group by turn
    ),
    picked as materialized (
        select run.*
        from run
        left join cut using (turn)
        where cut.seq is null or run.seq < cut.seq
        order by turn, seq
        limit $5
    ),
    -- lifecycle::after_lost_lease: the first lost lease adds no attempt, every further one does.
    verdict as materialized (
        select
            seq, id, slot, key_hash, turn,
            token is not null as taken_over,
            token is not null or lost > 0 as is_suspect,
            owner as old_owner,
            attempts + (token is not null and lost > 0)::integer as attempts,
            lost + (token is not null)::integer as lost,
            case
                when has_expired then 4
                when token is not null and lost > 0 and attempts + 1 >= $7 then 3
            end as dead_reason
        from picked
    ),
    leased as (
        update postroom.outbox_queue_ordered
        set token = $3,
            owner = $2,
            locked_until = until,
            attempts = attempts + (token is not null and lost > 0)::integer,
            lost = lost + (token is not null)::integer
        where seq = any(array(select seq from verdict where dead_reason is null))
    ),
    died as (
        delete from postroom.outbox_queue_ordered
        where seq = any(array(select seq from verdict where dead_reason is not null))
    ),
    buried as (
        insert into postroom.outbox_settled (
            seq, settled_at, id, settled_by, attempts, lost, state, reason
        )
        select seq, present, id, $2, attempts, lost, 2, dead_reason
        from verdict
        where dead_reason is not null
    ),
    halted as (
        insert into postroom.outbox_halt (seq, key_hash, slot)
        select seq, key_hash, slot
        from verdict
        where dead_reason is not null and $12
    ),
    recorded as (
        insert into postroom.outbox_attempt (id, n, at, by_owner, kind)
        select
            id,
            (
                select coalesce(max(n), 0) + 1
                from postroom.outbox_attempt as a
                where a.id = verdict.id
            ),
            present,
            old_owner,
            2
        from verdict
        where taken_over
    ),
    -- The next stretch begins behind the last key that got its turn.
    total as materialized (
        select
            (select count(*) from verdict) as taken,
            (select count(*) from verdict where is_suspect) as suspects,
            (select count(*) from verdict where dead_reason is not null) as dead,
            case
                when (select count(*) from verdict) = $5 then (
                    select turn from verdict order by turn desc limit 1
                )
                when exists (select from visited where opens = wanted or visits = 1000) then (
                    select max(visits) from visited
                )
            end as last_turn
    )
    select
        case
            when total.last_turn is not null then last.slot
            when cardinality(filled) = least(wanted, 64) then (
                select max(given) from unnest(filled) as given
            )
        end,
        case when total.last_turn is not null then last.key_hash else 9223372036854775807 end,
        total.taken,
        total.suspects,
        total.dead,
        present,
        until,
        item.slot,
        item.key_hash,
        item.seq,
        item.attempts,
        item.lost,
        message.created_at,
        message.id,
        message.topic,
        message.payload,
        message.content_type,
        message.headers::text,
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
    from total
    left join lateral (
        select slot, key_hash
        from visited
        where visits = total.last_turn
        order by slot, key_hash
        limit 1
    ) as last on true
    left join (
        select *
        from verdict
        where dead_reason is null
        -- The order in which the messages lie, while a run's lie far apart.
        order by id
    ) as item on true
    left join lateral (
        select *
        from postroom.outbox_message
        where id = item.id
        limit 1
    ) as message on true
    order by item.turn, item.seq;
end
$body$;
