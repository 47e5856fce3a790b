-- Joins: what both boxes share. Each migration replaces these functions.
-- Each statement in them sees what was committed before it began, which is what makes the counts
-- right: whoever waited for a lock reads what its holder wrote. Locks are taken in one order,
-- places in the queue first and then joins by id, so that nobody waits in a circle.

-- Ends those of the joins that count all their members, and publishes their follow-ups into the
-- outbox. The caller holds the locks of the joins.
create or replace function postroom.join_end(given uuid[], present timestamptz)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
declare
    published bigint;
begin
    with
    ended as (
        update postroom.join_tally as ending
        set state = verdict.state,
            ended_at = present,
            follow_up = (
                select follow_up.id
                from postroom.join_follow_up as follow_up
                where follow_up.join_id = ending.id
                    and follow_up.state = verdict.state
            )
        from (
            select id, case when dead = 0 then 1 else 2 end::smallint as state
            from postroom.join_tally
            where id = any(given)
                and state = 0
                and done + dead = expected
        ) as verdict
        where ending.id = verdict.id
        returning ending.id, ending.state
    ),
    -- Two joins may name one follow-up: it is published once.
    chosen as (
        select distinct on (follow_up.id) follow_up.*
        from ended
        join postroom.join_follow_up as follow_up
            on follow_up.join_id = ended.id
            and follow_up.state = ended.state
        order by follow_up.id
    ),
    numbered as materialized (
        select nextval('postroom.outbox_seq') as seq, chosen.*
        from chosen
    ),
    -- Its id was fixed when the join was started. Whoever used it for a message has published that.
    written as (
        insert into postroom.outbox_message (
            id, seq, occurred_at, created_at, priority, topic, content_type, aggregate_type,
            aggregate_id, ordering_key, tenant_id, correlation_id, causation_id, headers, payload
        )
        select
            id, seq, present, present, priority, topic, content_type, aggregate_type,
            aggregate_id, ordering_key, tenant_id, correlation_id, causation_id, headers, payload
        from numbered
        on conflict (id) do nothing
        returning id
    ),
    queued as (
        insert into postroom.outbox_queue (
            seq, topic_hash, key_hash, tenant_hash, id, attempts, lost, slot, priority
        )
        select seq, topic_hash, key_hash, tenant_hash, id, 0, 0, slot, priority
        from numbered
        where id in (select id from written)
        returning seq
    ),
    forgotten as (
        delete from postroom.join_follow_up
        where join_id in (select id from ended)
    )
    select count(*)
    into published
    from queued;
    if published > 0 then
        -- Rare enough to ring inside the transaction, and the only chance: a dispatcher may sleep
        -- in another process than the one that settles.
        perform pg_notify('{{channel}}', '');
    end if;
end
$body$;

-- Messages of a box are settled: counts those that are members of open joins. The caller holds
-- their places in the queue, so that nobody attaches one at the same time.
create or replace function postroom.join_settle(
    from_inbox boolean, ids uuid[], outcomes smallint[], present timestamptz
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $body$
declare
    counting uuid[] := array(
        select id
        from postroom.join_tally
        where state = 0
            and id = any(array(
                select join_id
                from postroom.join_message
                where message_id = any(ids)
                    and in_inbox = from_inbox
                    and outcome is null
            ))
        order by id
        for update
    );
begin
    if cardinality(counting) = 0 then
        return;
    end if;
    with
    marked as (
        update postroom.join_message as member
        set outcome = given.outcome
        from unnest(ids, outcomes) as given (id, outcome)
        where member.message_id = given.id
            and member.in_inbox = from_inbox
            and member.join_id = any(counting)
            and member.outcome is null
        returning member.join_id, member.outcome
    ),
    total as (
        select
            join_id,
            count(*) filter (where outcome = 1) as done,
            count(*) filter (where outcome = 2) as dead
        from marked
        group by join_id
    )
    update postroom.join_tally as counted
    set done = counted.done + total.done,
        dead = counted.dead + total.dead
    from total
    where counted.id = total.join_id;
    perform postroom.join_end(counting, present);
end
$body$;

-- Dead messages of a box are live again: an open join counts them no longer.
create or replace function postroom.join_reopen(from_inbox boolean, ids uuid[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $body$
declare
    counting uuid[] := array(
        select id
        from postroom.join_tally
        where state = 0
            and id = any(array(
                select join_id
                from postroom.join_message
                where message_id = any(ids)
                    and in_inbox = from_inbox
                    and outcome = 2
            ))
        order by id
        for update
    );
begin
    with
    unmarked as (
        update postroom.join_message
        set outcome = null
        where message_id = any(ids)
            and in_inbox = from_inbox
            and join_id = any(counting)
            and outcome = 2
        returning join_id
    ),
    total as (
        select join_id, count(*) as dead
        from unmarked
        group by join_id
    )
    update postroom.join_tally as counted
    set dead = counted.dead - total.dead
    from total
    where counted.id = total.join_id;
end
$body$;

-- Writes members that were looked at and found to be new, an element per member; the look holds the
-- locks. An outcome is given for what is settled already.
create or replace function postroom.join_add(
    from_inbox boolean, joins uuid[], messages uuid[], outcomes smallint[], present timestamptz
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $body$
begin
    insert into postroom.join_message (join_id, message_id, in_inbox, outcome)
    select join_id, message_id, from_inbox, outcome
    from unnest(joins, messages, outcomes) as given (join_id, message_id, outcome);
    update postroom.join_tally as counted
    set attached = counted.attached + total.attached,
        done = counted.done + total.done,
        dead = counted.dead + total.dead
    from (
        select
            join_id,
            count(*) as attached,
            count(*) filter (where outcome = 1) as done,
            count(*) filter (where outcome = 2) as dead
        from unnest(joins, outcomes) as given (join_id, outcome)
        group by join_id
    ) as total
    where counted.id = total.join_id;
    perform postroom.join_end(joins, present);
end
$body$;
