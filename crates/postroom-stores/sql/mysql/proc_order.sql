-- Claims of rows with an ordering key. The caller has a transaction at READ COMMITTED: a slot is
-- locked first, so that its owner is the only one who claims there, and the statements that decide
-- come after, and see the leases that others wrote until then.

-- What came due takes its place, as ready.
create procedure postroom_outbox_unpark_ordered(p_present bigint, p_limit int)
sql security definer
begin
    delete from postroom_outbox_candidate;
    insert into postroom_outbox_candidate (
        seq, id, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select seq, id, 0, 0, '', attempts, lost, 0
    from postroom_outbox_parked force index (waking)
    where band = 1000
        and wake_at <= p_present
    order by wake_at, seq
    limit p_limit
    for update skip locked;
    if row_count() > 0 then
        insert into postroom_outbox_ordered (
            slot, key_hash, seq, id, topic_hash, tenant_hash, expires_at, priority, attempts, lost
        )
        select
            parked.slot, parked.key_hash, parked.seq, parked.id, parked.topic_hash,
            parked.tenant_hash, parked.expires_at, parked.priority, parked.attempts, parked.lost
        from postroom_outbox_candidate as due
        straight_join postroom_outbox_parked as parked force index (primary)
            on parked.seq = due.seq;
        delete parked
        from postroom_outbox_candidate as due
        straight_join postroom_outbox_parked as parked force index (primary)
            on parked.seq = due.seq;
    end if;
end;

-- The first row of each of up to p_limit keys of a slot, behind p_after, from key to key: what
-- waits behind a first row costs nothing. Those that come after enough open ones are left out.
create procedure postroom_outbox_visit(
    p_present bigint, p_slot smallint, p_after bigint, p_limit int, p_wanted int, p_suspects int,
    p_holding json, p_left_out json, out p_seen int
)
sql security definer
begin
    -- Open ones before a key; suspects up to and with it.
    insert into postroom_outbox_visited (slot, key_hash, seq, is_open, is_suspect)
    select slot, key_hash, seq, is_open and (not is_suspect or suspects <= p_suspects), is_suspect
    from (
        select
            head.*,
            coalesce(sum(is_open) over (
                order by key_hash rows between unbounded preceding and 1 preceding
            ), 0) as opens_before,
            sum(is_open and is_suspect) over (order by key_hash) as suspects
        from (
            select
                queue.slot, queue.key_hash, queue.seq,
                queue.leased or queue.lost > 0 as is_suspect,
                -- Otherwise it waits, or somebody has it.
                queue.locked_until <= p_present
                    and (
                        p_left_out is null
                        or not json_contains(p_left_out, json_quote(cast(queue.topic_hash as char)))
                    )
                    and not exists (
                        select 1
                        from postroom_outbox_halt as halt
                        where halt.slot = queue.slot and halt.key_hash = queue.key_hash
                    )
                    -- A row that committed late may lie in front of one that the owner has.
                    and case
                        when p_holding is null then not exists (
                            select 1
                            from postroom_outbox_ordered as other
                            where other.slot = queue.slot
                                and other.key_hash = queue.key_hash
                                and other.leased = 1
                                and other.locked_until > p_present
                        )
                        else not json_contains(p_holding, json_quote(cast(queue.key_hash as char)))
                    end as is_open
            from (
                select slot, key_hash, min(seq) as seq
                from postroom_outbox_ordered force index (primary)
                where slot = p_slot and key_hash > p_after
                group by slot, key_hash
                order by slot, key_hash
                limit p_limit
            ) as first
            straight_join postroom_outbox_ordered as queue force index (primary)
                on queue.slot = first.slot
                and queue.key_hash = first.key_hash
                and queue.seq = first.seq
        ) as head
    ) as counted
    where opens_before < p_wanted;
    set p_seen = row_count();
end;

-- Visits keys of slots that the owner has and nobody else is claiming in, in the order of slot and
-- key, until enough are open. Says where it stopped; null when there is no further key.
create procedure postroom_outbox_visit_keys(
    p_present bigint, p_owner binary(16), p_after_slot smallint, p_after_key bigint, p_wanted int,
    p_suspects int, p_holding json, p_left_out json, out p_last_slot smallint, out p_last_key bigint
)
sql security definer
begin
    declare at_end tinyint default 0;
    declare slots_wanted int default least(p_wanted, 64);
    declare slots int default 0;
    declare visits int default 0;
    declare opens int default 0;
    declare suspects int default 0;
    declare this_slot smallint;
    declare after_key bigint;
    declare block int;
    declare seen int;
    declare mine cursor for select slot from postroom_outbox_visiting order by slot;
    declare continue handler for not found set at_end = 1;
    delete from postroom_outbox_visited;
    delete from postroom_outbox_visiting;
    insert into postroom_outbox_visiting (slot)
    select slot.slot
    from postroom_outbox_slot as slot
    where slot.owner = p_owner
        and slot.locked_until > p_present
        and slot.slot >= p_after_slot
        and exists (
            select 1
            from postroom_outbox_ordered as queue
            where queue.slot = slot.slot
                and (queue.slot > p_after_slot or queue.key_hash > p_after_key)
        )
    order by slot.slot
    limit slots_wanted
    for update skip locked;
    set slots = row_count();
    open mine;
    walk: loop
        fetch mine into this_slot;
        if at_end then
            -- The slots behind these are for the next stretch.
            if slots = slots_wanted then
                set p_last_key = 9223372036854775807;
            else
                set p_last_slot = null, p_last_key = null;
            end if;
            leave walk;
        end if;
        set p_last_slot = this_slot,
            after_key = case
                when this_slot = p_after_slot then p_after_key else -9223372036854775808
            end;
        keys_of_slot: loop
            set block = least(greatest(p_wanted - opens, 16), 1000 - visits);
            call postroom_outbox_visit(
                p_present, this_slot, after_key, block, p_wanted - opens, p_suspects - suspects,
                p_holding, p_left_out, seen
            );
            set visits = visits + seen;
            select coalesce(sum(is_open), 0), coalesce(sum(is_open and is_suspect), 0)
            into opens, suspects
            from postroom_outbox_visited;
            select max(key_hash) into after_key
            from postroom_outbox_visited
            where slot = this_slot;
            if opens >= p_wanted or visits >= 1000 then
                set p_last_key = after_key;
                leave walk;
            end if;
            if seen < block then
                leave keys_of_slot;
            end if;
        end loop;
    end loop;
    close mine;
end;

-- Locks the first rows of the open keys and reads them again. What somebody else has locked is left
-- out, and ends the run of its key: the last holder of an expired lease may be settling it right
-- now. Only rows that were seen are locked: those of transactions that are not over can not be
-- waited for.
create procedure postroom_outbox_lock_runs(
    p_present bigint, p_until bigint, p_max_attempts int, p_left_out json
)
sql security definer
begin
    delete from postroom_outbox_run;
    insert into postroom_outbox_run (
        seq, suspect, leased, old_owner, attempts, lost, locked_until, reason, is_free
    )
    select
        queue.seq, queue.leased or queue.lost > 0, queue.leased, queue.owner,
        queue.attempts + (queue.leased and queue.lost > 0), queue.lost + queue.leased, p_until,
        case
            when queue.expires_at <= p_present then 4
            when queue.leased and queue.lost > 0 and queue.attempts + 1 >= p_max_attempts then 3
        end,
        queue.locked_until <= p_present
            and (
                p_left_out is null
                or not json_contains(p_left_out, json_quote(cast(queue.topic_hash as char)))
            )
            -- A suspect is taken alone.
            and (
                queue.seq = visited.seq
                or queue.leased = 0 and queue.lost = 0 and not visited.is_suspect
            )
    from postroom_outbox_candidate as candidate
    straight_join postroom_outbox_visited as visited
        on visited.slot = candidate.slot and visited.key_hash = candidate.key_hash
    straight_join postroom_outbox_ordered as queue force index (primary)
        on queue.slot = candidate.slot
        and queue.key_hash = candidate.key_hash
        and queue.seq = candidate.seq
    order by candidate.slot, candidate.key_hash, candidate.seq
    for update skip locked;
end;

-- Leases the first rows of keys to an owner, in order, beginning behind a key: they are in taken
-- afterwards. Says where to go on; null when there is no further key.
create procedure postroom_outbox_walk(
    p_present bigint, p_owner binary(16), p_token binary(16), p_lease bigint, p_batch int,
    p_suspects int, p_max_attempts int, p_after_slot smallint, p_after_key bigint,
    p_holding json, p_except json, p_halt tinyint,
    out p_last_slot smallint, out p_last_key bigint
)
sql security definer
walk: begin
    declare at_end tinyint default 0;
    declare until bigint;
    declare left_out json;
    declare opens int;
    declare longest int;
    declare this_slot smallint;
    declare this_key bigint;
    declare taken int;
    declare found tinyint;
    declare open_keys cursor for
        select visited.slot, visited.key_hash
        from postroom_outbox_visited as visited
        where visited.is_open
        order by visited.slot, visited.key_hash;
    declare continue handler for not found set at_end = 1;
    call postroom_outbox_tables();
    delete from postroom_outbox_taken;
    -- By selects of their own: a condition would read with locks, and wait for producers.
    select exists (select 1 from postroom_outbox_control where topic = '') into found;
    if found then
        leave walk;
    end if;
    call postroom_outbox_unpark_ordered(p_present, p_batch);
    select exists (select 1 from postroom_outbox_ordered) into found;
    if not found then
        leave walk;
    end if;
    -- No row is leased for longer than its slot.
    call postroom_outbox_share_slots(p_owner, p_present, p_lease, until);
    -- Read late: whatever was waited for until here, a pause counts from its commit.
    call postroom_outbox_left_out(p_except, left_out);
    -- The rules of order::keys_wanted and order::run_length.
    call postroom_outbox_visit_keys(
        p_present, p_owner, coalesce(p_after_slot, 0),
        coalesce(p_after_key, -9223372036854775808), ceil(p_batch / 4), p_suspects, p_holding,
        left_out, p_last_slot, p_last_key
    );
    select coalesce(sum(visited.is_open), 0) into opens from postroom_outbox_visited as visited;
    set longest = greatest(
        4, ceil(p_batch / greatest(1, opens + coalesce(json_length(p_holding), 0)))
    );
    delete from postroom_outbox_candidate;
    set at_end = 0;
    open open_keys;
    runs: loop
        fetch open_keys into this_slot, this_key;
        if at_end then
            leave runs;
        end if;
        insert into postroom_outbox_candidate (
            seq, id, slot, key_hash, suspect, leased, old_owner, attempts, lost, locked_until
        )
        select queue.seq, queue.id, this_slot, this_key, 0, 0, '', 0, 0, 0
        from postroom_outbox_ordered as queue force index (primary)
        where queue.slot = this_slot
            and queue.key_hash = this_key
        order by queue.seq
        limit longest;
    end loop;
    close open_keys;
    call postroom_outbox_lock_runs(p_present, until, p_max_attempts, left_out);
    -- The first row that can not be taken ends the run of its key; so does one that dies, if dead
    -- messages stop their keys.
    insert into postroom_outbox_taken (
        seq, id, slot, key_hash, suspect, leased, old_owner, attempts, lost, locked_until, reason
    )
    select
        seq, id, slot, key_hash, suspect, leased, old_owner, attempts, lost, locked_until, reason
    from (
        select
            candidate.seq, candidate.id, candidate.slot, candidate.key_hash,
            run.suspect, run.leased, run.old_owner, run.attempts, run.lost, run.locked_until,
            run.reason,
            min(coalesce(run.is_free, 0)) over (
                partition by candidate.slot, candidate.key_hash order by candidate.seq
            ) as all_free,
            coalesce(max(run.reason = 4) over (
                partition by candidate.slot, candidate.key_hash order by candidate.seq
                rows between unbounded preceding and 1 preceding
            ), 0) as dead_before
        from postroom_outbox_candidate as candidate
        left join postroom_outbox_run as run force index (primary) on run.seq = candidate.seq
    ) as cut
    where all_free = 1
        and not (p_halt and dead_before)
    order by slot, key_hash, seq
    limit p_batch;
    set taken = row_count();
    if taken = p_batch then
        select slot, key_hash into p_last_slot, p_last_key
        from postroom_outbox_taken
        order by slot desc, key_hash desc
        limit 1;
    end if;
    call postroom_outbox_lease_ordered(p_present, p_owner, p_token, p_halt);
end;

-- Writes down what a claim of ordered rows has taken.
create procedure postroom_outbox_lease_ordered(
    p_present bigint, p_owner binary(16), p_token binary(16), p_halt tinyint
)
sql security definer
begin
    update postroom_outbox_taken as taken
    straight_join postroom_outbox_ordered as queue force index (primary)
        on queue.slot = taken.slot and queue.key_hash = taken.key_hash and queue.seq = taken.seq
    set queue.leased = 1,
        queue.token = p_token,
        queue.owner = p_owner,
        queue.locked_until = taken.locked_until,
        queue.attempts = taken.attempts,
        queue.lost = taken.lost
    where taken.reason is null;
    delete queue
    from postroom_outbox_taken as taken
    straight_join postroom_outbox_ordered as queue force index (primary)
        on queue.slot = taken.slot and queue.key_hash = taken.key_hash and queue.seq = taken.seq
    where taken.reason is not null;
    if p_halt then
        insert into postroom_outbox_halt (seq, key_hash, slot)
        select seq, key_hash, slot from postroom_outbox_taken where reason is not null;
    end if;
    call postroom_outbox_note_taken(p_present, p_owner);
end;

-- For those who do not walk from claim to claim.
create procedure postroom_outbox_take_ordered(
    p_now bigint, p_owner binary(16), p_token binary(16), p_lease bigint, p_batch int,
    p_suspects int, p_max_attempts int, p_after_slot smallint, p_after_key bigint,
    p_holding json, p_except json, p_halt tinyint
)
sql security definer
begin
    declare last_slot smallint;
    declare last_key bigint;
    call postroom_outbox_walk(
        coalesce(
            p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
        ),
        p_owner, p_token, p_lease, p_batch, p_suspects, p_max_attempts, p_after_slot, p_after_key,
        p_holding, p_except, p_halt, last_slot, last_key
    );
end;

-- A claim of the engine: a summary, then the items.
create procedure postroom_outbox_run_claim_ordered(
    p_now bigint, p_owner binary(16), p_token binary(16), p_lease bigint, p_batch int,
    p_suspects int, p_max_attempts int, p_after_slot smallint, p_after_key bigint,
    p_holding json, p_except json, p_halt tinyint
)
sql security definer
begin
    declare own tinyint default 0;
    declare last_slot smallint;
    declare last_key bigint;
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;
    call postroom_begin(own);
    call postroom_outbox_walk(
        present, p_owner, p_token, p_lease, p_batch, p_suspects, p_max_attempts, p_after_slot,
        p_after_key, p_holding, p_except, p_halt, last_slot, last_key
    );
    if own then
        commit;
    end if;
    select
        present as claimed_at,
        count(*) as taken,
        cast(coalesce(sum(suspect), 0) as signed) as suspects,
        cast(coalesce(sum(reason is not null), 0) as signed) as dead,
        last_slot,
        last_key
    from postroom_outbox_taken;
    call postroom_outbox_show_taken(present);
end;
