-- Joins: what each box has of its own.

-- Every way to settle a message ends in a row of settled, so this is where members are counted. A
-- statement is counted as a whole, at its end. This is on the way of every message: settings of its
-- own would be most of its cost, so it names the schema of what it uses, and asks for the first
-- open join in the order of the index that has only those.
create or replace function postroom.outbox_count_settled()
returns trigger
language plpgsql
as $body$
begin
    if (
        select id
        from postroom.join_tally
        where state operator(pg_catalog.=) 0
        order by id
        limit 1
    ) is not null then
        perform postroom.join_settle(
            {{in_inbox}},
            pg_catalog.array_agg(id),
            pg_catalog.array_agg(state),
            pg_catalog.max(settled_at)
        )
        from settled;
    end if;
    return null;
end
$body$;

-- A replay deletes the row and puts the message back into its place; a purge deletes both, and what
-- it deletes has counted.
create or replace function postroom.outbox_count_reopened()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $body$
begin
    if exists (select from postroom.join_tally where state = 0) then
        perform postroom.join_reopen(
            {{in_inbox}},
            array(
                select id
                from gone
                where state = 2
                    and (
                        exists (select from postroom.outbox_queue where seq = gone.seq)
                        or exists (select from postroom.outbox_parked where seq = gone.seq)
                    )
            )
        );
    end if;
    return null;
end
$body$;

-- Only where they are missing: to make a trigger locks the table.
do $body$
begin
    if not exists (
        select
        from pg_trigger
        where tgrelid = 'postroom.outbox_settled'::regclass
            and tgname = 'count_settled'
    ) then
        create trigger count_settled
        after insert on postroom.outbox_settled
        referencing new table as settled
        for each statement
        execute function postroom.outbox_count_settled();
        create trigger count_reopened
        after delete on postroom.outbox_settled
        referencing old table as gone
        for each statement
        execute function postroom.outbox_count_reopened();
    end if;
end
$body$;

-- For done messages that leave no row of settled because no history is kept.
create or replace function postroom.outbox_count_done(ids uuid[], present timestamptz)
returns boolean
language plpgsql
as $body$
begin
    if ids is not null and (
        select id
        from postroom.join_tally
        where state operator(pg_catalog.=) 0
        order by id
        limit 1
    ) is not null then
        perform postroom.join_settle(
            {{in_inbox}},
            ids,
            pg_catalog.array_fill(1::pg_catalog.int2, array[pg_catalog.cardinality(ids)]),
            present
        );
    end if;
    return true;
end
$body$;

-- What there is to know about messages that are to be members, an element per member: the join, the
-- message, and whether this transaction itself wrote the message. When it answers, nothing of that
-- can change before the end of the transaction. Answers in the order given; standing: 0 live,
-- 1 done, 2 dead, none when there is no such message.
create or replace function postroom.outbox_join_look(
    joins uuid[], messages uuid[], fresh boolean[]
)
returns table (
    state smallint, expected integer, attached integer, member_in_inbox boolean, standing smallint
)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $body$
#variable_conflict use_column
declare
    new_joins uuid[];
    wanted uuid[];
    unseen bigint[];
    rounds integer := 0;
begin
    select
        coalesce(array_agg(distinct given.join_id), '{}'),
        coalesce(array_agg(distinct given.message_id) filter (where not given.is_fresh), '{}')
    into new_joins, wanted
    from unnest($1, $2, $3) as given (join_id, message_id, is_fresh)
    where not exists (
        select
        from postroom.join_message as member
        where member.join_id = given.join_id
            and member.message_id = given.message_id
    );
    unseen := array(select seq from postroom.outbox_message where id = any(wanted) order by seq);
    -- A settle deletes the place in the queue and a replay deletes the settled row, so one waits
    -- for the other. Places are written and not only locked: at REPEATABLE READ a settle that
    -- waited for a mere lock would go on with a snapshot that does not see the new member. A row
    -- can move from one table to another between two looks: then look again.
    while cardinality(unseen) > 0 loop
        rounds := rounds + 1;
        if rounds > 100 then
            raise exception 'a message moves too fast to become a member of a join'
                using errcode = 'serialization_failure';
        end if;
        with
        queued as (
            update postroom.outbox_queue
            set lost = lost
            where seq = any(unseen)
            returning seq
        ),
        parked as (
            update postroom.outbox_parked
            set lost = lost
            where seq = any(unseen)
            returning seq
        ),
        settled as materialized (
            select seq
            from postroom.outbox_settled
            where seq = any(unseen)
            order by seq
            for key share
        )
        select array(
            select unnest(unseen)
            except select seq from queued
            except select seq from parked
            except select seq from settled
        )
        into unseen;
        -- What is deleted is nowhere.
        unseen := array(
            select seq
            from postroom.outbox_message
            where id = any(wanted)
                and seq = any(unseen)
            order by seq
        );
    end loop;
    perform
    from postroom.join_tally
    where id = any(new_joins)
    order by id
    for update;
    return query
    select
        looked.state, looked.expected, looked.attached, member.in_inbox,
        case when message.seq is not null then coalesce(settled.state, 0::smallint) end
    from unnest($1, $2) with ordinality as given (join_id, message_id, place)
    left join lateral (
        select * from postroom.join_tally where id = given.join_id limit 1
    ) as looked on true
    left join lateral (
        select known.in_inbox
        from postroom.join_message as known
        where known.join_id = given.join_id
            and known.message_id = given.message_id
        limit 1
    ) as member on true
    left join lateral (
        select seq from postroom.outbox_message where id = given.message_id limit 1
    ) as message on true
    left join lateral (
        select ended.state
        from postroom.outbox_settled as ended
        where ended.seq = message.seq
        limit 1
    ) as settled on true
    order by given.place;
end
$body$;
