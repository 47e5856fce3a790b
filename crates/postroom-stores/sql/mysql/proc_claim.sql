-- Claims of rows without an ordering key. The caller has a transaction.

-- The temporary tables of a session, made once. What is in them is only for the call at work, so
-- they are in memory. The names have a version: a session may be older than a migration.
create procedure postroom_outbox_tables()
sql security definer
begin
    -- What a claim takes. leased and old_owner tell of the lease that ran out, reason why it dies.
    create temporary table if not exists postroom_outbox_taken (
        seq bigint not null,
        id binary(16) not null,
        band smallint not null default 0,
        slot smallint not null default 0,
        key_hash bigint not null default 0,
        parked tinyint not null default 0,
        wake_at bigint not null default 0,
        suspect tinyint not null,
        leased tinyint not null,
        old_owner binary(16) not null,
        attempts int not null,
        lost int not null,
        locked_until bigint not null,
        reason smallint,
        primary key (seq)
    ) engine = memory;
    create temporary table if not exists postroom_outbox_candidate (
        seq bigint not null,
        id binary(16) not null,
        band smallint not null default 0,
        slot smallint not null default 0,
        key_hash bigint not null default 0,
        parked tinyint not null default 0,
        wake_at bigint not null default 0,
        suspect tinyint not null,
        leased tinyint not null,
        old_owner binary(16) not null,
        attempts int not null,
        lost int not null,
        locked_until bigint not null,
        reason smallint,
        primary key (seq)
    ) engine = memory;
    -- Of the first rows of keys those that could be locked, and whether they may be taken.
    create temporary table if not exists postroom_outbox_run (
        seq bigint not null,
        suspect tinyint not null,
        leased tinyint not null,
        old_owner binary(16) not null,
        attempts int not null,
        lost int not null,
        locked_until bigint not null,
        reason smallint,
        is_free tinyint not null,
        primary key (seq)
    ) engine = memory;
    -- What a settle or a renewal is asked for, and what of that the owner holds.
    create temporary table if not exists postroom_outbox_given (
        place int not null,
        seq bigint not null,
        token binary(16) not null,
        kind tinyint not null,
        delay bigint not null,
        counted tinyint not null,
        reason smallint,
        primary key (seq, token)
    ) engine = memory;
    create temporary table if not exists postroom_outbox_held (
        place int not null,
        seq bigint not null,
        token binary(16) not null,
        id binary(16) not null,
        band smallint not null,
        slot smallint,
        key_hash bigint,
        attempts int not null,
        lost int not null,
        kind tinyint not null,
        delay bigint not null,
        counted tinyint not null,
        reason smallint,
        primary key (seq)
    ) engine = memory;
    -- The slots and keys that a claim of ordered rows looks at.
    create temporary table if not exists postroom_outbox_visiting (
        slot smallint not null,
        primary key (slot)
    ) engine = memory;
    create temporary table if not exists postroom_outbox_visited (
        slot smallint not null,
        key_hash bigint not null,
        seq bigint not null,
        is_open tinyint not null,
        is_suspect tinyint not null,
        primary key (slot, key_hash)
    ) engine = memory;
    -- Members of joins that are settled, or live again.
    create temporary table if not exists postroom_outbox_ended (
        id binary(16) not null,
        state smallint not null,
        primary key (id)
    ) engine = memory;
    call postroom_join_tables();
end;

-- Topics of which a claim takes nothing: what the caller says, and what is paused. Null for none.
-- Hashes are texts, because numbers in JSON are compared as floating point.
create procedure postroom_outbox_left_out(p_except json, out p_left_out json)
sql security definer
begin
    declare paused json;
    select json_arrayagg(cast(topic_hash as char)) into paused
    from postroom_outbox_control
    where topic <> '';
    set p_left_out = case
        when paused is null then nullif(p_except, '[]')
        when p_except is null then paused
        else json_merge_preserve(p_except, paused)
    end;
end;

-- Locks and notes rows of the queue. Fresh rows and suspects, whose lease ran out before, are
-- looked for apart, each limited to what can be taken, so that nothing else is locked (B19).
create procedure postroom_outbox_scan_queue(
    p_present bigint, p_until bigint, p_max_attempts int, p_left_out json,
    p_first_band smallint, p_last_band smallint, p_floor bigint, p_below bigint,
    p_suspects tinyint, p_limit int, out p_found int
)
sql security definer
begin
    set p_found = 0;
    if p_limit > 0 and not p_suspects then
        insert into postroom_outbox_taken (
            seq, id, band, suspect, leased, old_owner, attempts, lost, locked_until, reason
        )
        select
            seq, id, band, 0, 0, owner, attempts, lost, p_until,
            case when expires_at <= p_present then 4 end
        from postroom_outbox_queue force index (primary)
        where band between p_first_band and p_last_band
            and seq >= p_floor
            and leased = 0
            and lost = 0
            and (
                p_left_out is null
                or not json_contains(p_left_out, json_quote(cast(topic_hash as char)))
            )
        order by band, seq
        limit p_limit
        for update skip locked;
        set p_found = row_count();
    elseif p_limit > 0 then
        -- lifecycle::after_lost_lease: the first one lost adds no attempt, every further one does.
        insert into postroom_outbox_taken (
            seq, id, band, suspect, leased, old_owner, attempts, lost, locked_until, reason
        )
        select
            seq, id, band, 1, leased, owner,
            attempts + (leased and lost > 0), lost + leased, p_until,
            case
                when expires_at <= p_present then 4
                when leased and lost > 0 and attempts + 1 >= p_max_attempts then 3
            end
        from postroom_outbox_queue force index (primary)
        where band between p_first_band and p_last_band
            and seq >= p_floor
            and seq < p_below
            and (leased = 1 and locked_until <= p_present or leased = 0 and lost > 0)
            and (
                p_left_out is null
                or not json_contains(p_left_out, json_quote(cast(topic_hash as char)))
            )
        order by band, seq
        limit p_limit
        for update skip locked;
        set p_found = row_count();
    end if;
end;

-- The same of what waits for its time, up to a time.
create procedure postroom_outbox_scan_parked(
    p_present bigint, p_until bigint, p_left_out json,
    p_first_band smallint, p_last_band smallint, p_time bigint,
    p_suspects tinyint, p_limit int, out p_found int
)
sql security definer
begin
    set p_found = 0;
    if p_limit > 0 then
        insert into postroom_outbox_taken (
            seq, id, band, parked, wake_at, suspect, leased, old_owner, attempts, lost,
            locked_until, reason
        )
        select
            seq, id, band, 1, wake_at, p_suspects, 0, '', attempts, lost, p_until,
            case when expires_at <= p_present then 4 end
        from postroom_outbox_parked force index (waking)
        where band between p_first_band and p_last_band
            and wake_at <= p_time
            and (lost > 0) = p_suspects
            and (
                p_left_out is null
                or not json_contains(p_left_out, json_quote(cast(topic_hash as char)))
            )
        order by band, wake_at, seq
        limit p_limit
        for update skip locked;
        set p_found = row_count();
    end if;
end;

-- Of too many rows keeps the first, in the order of claims, and of suspects no more than allowed.
create procedure postroom_outbox_cut(p_batch int, p_suspects int)
sql security definer
begin
    delete from postroom_outbox_candidate;
    insert into postroom_outbox_candidate (
        seq, id, band, parked, wake_at, suspect, leased, old_owner, attempts, lost,
        locked_until, reason
    )
    select
        seq, id, band, parked, wake_at, suspect, leased, old_owner, attempts, lost,
        locked_until, reason
    from postroom_outbox_taken;
    delete from postroom_outbox_taken;
    insert into postroom_outbox_taken (
        seq, id, band, parked, wake_at, suspect, leased, old_owner, attempts, lost,
        locked_until, reason
    )
    select
        seq, id, band, parked, wake_at, suspect, leased, old_owner, attempts, lost,
        locked_until, reason
    from (
        select
            candidate.*,
            row_number() over (
                partition by suspect
                order by band, parked desc, wake_at, seq
            ) as place_among_its_kind
        from postroom_outbox_candidate as candidate
    ) as numbered
    where suspect = 0
        or place_among_its_kind <= p_suspects
    order by band, parked desc, wake_at, seq
    limit p_batch;
end;

-- Leases rows to an owner: they are in taken afterwards. Order: priority, then what waited for its
-- time, then place. Rows are taken by their state, never by a cursor: commits become visible out of
-- order (B38). What lies below the floor is left to another claim.
create procedure postroom_outbox_take(
    p_now bigint, p_owner binary(16), p_token binary(16), p_lease bigint, p_batch int,
    p_suspects int, p_max_attempts int, p_floor bigint, p_except json
)
sql security definer
take: begin
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    declare until bigint default present + p_lease;
    declare left_out json;
    declare room int;
    declare suspects int default p_suspects;
    declare found int;
    declare last_band smallint;
    declare most_wanted bigint;
    call postroom_outbox_tables();
    delete from postroom_outbox_taken;
    -- By a select of its own: a condition would read with a lock.
    select exists (select 1 from postroom_outbox_control where topic = '') into found;
    if found then
        leave take;
    end if;
    call postroom_outbox_left_out(p_except, left_out);

    -- Above 0 both kinds are merged by priority, and a surplus stays locked until the end.
    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, -100, -1, 0, 0, false, p_batch, found
    );
    -- A suspect behind the last row of a full scan can not be taken: it is not even looked at.
    set last_band = -1, most_wanted = 9223372036854775807;
    if found = p_batch then
        select band, seq into last_band, most_wanted
        from postroom_outbox_taken
        order by band desc, seq desc
        limit 1;
    end if;
    call postroom_outbox_scan_parked(
        present, until, left_out, -100, -1, present, false, p_batch, found
    );
    -- The last band apart: of an OR MariaDB makes two ranges that it reads again, with waits.
    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, -100, last_band - 1, 0, 9223372036854775807, true,
        p_suspects, found
    );
    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, last_band, last_band, 0, most_wanted, true,
        p_suspects - found, found
    );
    call postroom_outbox_scan_parked(
        present, until, left_out, -100, -1, present, true, p_suspects, found
    );
    select
        greatest(0, p_batch - count(*) + coalesce(sum(suspect), 0)
            - least(p_suspects, coalesce(sum(suspect), 0))),
        greatest(0, p_suspects - coalesce(sum(suspect), 0))
    into room, suspects
    from postroom_outbox_taken;

    call postroom_outbox_scan_parked(present, until, left_out, 0, 0, present, false, room, found);
    -- The same here.
    set most_wanted = present;
    if found > 0 and found = room then
        select max(wake_at) into most_wanted from postroom_outbox_taken where band = 0;
    end if;
    set room = room - found;
    call postroom_outbox_scan_parked(
        present, until, left_out, 0, 0, most_wanted, true,
        least(room + found, suspects), found
    );
    set room = greatest(0, room - found), suspects = suspects - found;
    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, 0, 0, p_floor, 0, false, room, found
    );
    set most_wanted = 9223372036854775807;
    if found = room then
        select coalesce(max(seq), 0) into most_wanted
        from postroom_outbox_taken
        where band = 0 and parked = 0 and suspect = 0;
    end if;
    set room = room - found;
    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, 0, 0, p_floor, most_wanted, true, suspects, found
    );
    set room = greatest(0, room - found), suspects = suspects - found;

    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, 1, 100, 0, 0, false, room, found
    );
    set last_band = 100, most_wanted = 9223372036854775807;
    if found = room and room > 0 then
        select band, seq into last_band, most_wanted
        from postroom_outbox_taken
        where band > 0 and parked = 0
        order by band desc, seq desc
        limit 1;
    end if;
    call postroom_outbox_scan_parked(
        present, until, left_out, 1, 100, present, false, room, found
    );
    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, 1, last_band - 1, 0, 9223372036854775807, true,
        least(room, suspects), found
    );
    call postroom_outbox_scan_queue(
        present, until, p_max_attempts, left_out, last_band, last_band, 0, most_wanted, true,
        least(room, suspects) - found, found
    );
    call postroom_outbox_scan_parked(
        present, until, left_out, 1, 100, present, true, least(room, suspects), found
    );
    select count(*), coalesce(sum(suspect), 0) into found, suspects from postroom_outbox_taken;
    if found > p_batch or suspects > p_suspects then
        call postroom_outbox_cut(p_batch, p_suspects);
    end if;
    call postroom_outbox_lease(present, p_owner, p_token, until);
end;

-- Writes down what a claim of plain rows has taken.
create procedure postroom_outbox_lease(
    p_present bigint, p_owner binary(16), p_token binary(16), p_until bigint
)
sql security definer
begin
    declare waited int;
    select coalesce(sum(parked), 0) into waited from postroom_outbox_taken;
    update postroom_outbox_taken as taken
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = taken.band and queue.seq = taken.seq
    set queue.leased = 1,
        queue.token = p_token,
        queue.owner = p_owner,
        queue.locked_until = p_until,
        queue.attempts = taken.attempts,
        queue.lost = taken.lost
    where taken.parked = 0
        and taken.reason is null;
    if waited > 0 then
        -- As leased: nothing becomes ready at a place that claims have already passed.
        insert into postroom_outbox_queue (
            band, seq, id, topic_hash, tenant_hash, expires_at,
            leased, token, owner, locked_until, attempts, lost
        )
        select
            parked.band, parked.seq, parked.id, parked.topic_hash, parked.tenant_hash,
            parked.expires_at, 1, p_token, p_owner, p_until, parked.attempts, parked.lost
        from postroom_outbox_taken as taken
        straight_join postroom_outbox_parked as parked force index (primary)
            on parked.seq = taken.seq
        where taken.parked = 1
            and taken.reason is null;
        delete parked
        from postroom_outbox_taken as taken
        straight_join postroom_outbox_parked as parked force index (primary)
            on parked.seq = taken.seq
        where taken.parked = 1;
    end if;
    delete queue
    from postroom_outbox_taken as taken
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = taken.band and queue.seq = taken.seq
    where taken.parked = 0
        and taken.reason is not null;
    call postroom_outbox_note_taken(p_present, p_owner);
end;

-- The history of what a claim has taken: leases that ran out, and deaths.
create procedure postroom_outbox_note_taken(p_present bigint, p_owner binary(16))
sql security definer
begin
    declare dead int;
    declare lapsed int;
    select coalesce(sum(reason is not null), 0), coalesce(sum(leased), 0) into dead, lapsed
    from postroom_outbox_taken;
    if lapsed > 0 then
        insert into postroom_outbox_attempt (id, n, at, by_owner, kind)
        select taken.id, coalesce(max(attempt.n), 0) + 1, p_present, taken.old_owner, 2
        from postroom_outbox_taken as taken
        left join postroom_outbox_attempt as attempt force index (primary) on attempt.id = taken.id
        where taken.leased = 1
        group by taken.id, taken.old_owner;
    end if;
    if dead > 0 then
        insert into postroom_outbox_settled (
            seq, settled_at, id, settled_by, attempts, lost, state, reason
        )
        select seq, p_present, id, p_owner, attempts, lost, 2, reason
        from postroom_outbox_taken
        where reason is not null;
        delete from postroom_outbox_ended;
        insert into postroom_outbox_ended (id, state)
        select distinct taken.id, 2
        from postroom_outbox_taken as taken
        straight_join postroom_join_message as member force index (message_id)
            on member.message_id = taken.id
        where taken.reason is not null
            and member.in_inbox = {{in_inbox}}
            and member.outcome is null;
        if row_count() > 0 then
            call postroom_outbox_count_ended(p_present);
        end if;
    end if;
end;

-- A claim of the engine: a summary, then the items.
create procedure postroom_outbox_run_claim(
    p_now bigint, p_owner binary(16), p_token binary(16), p_lease bigint, p_batch int,
    p_suspects int, p_max_attempts int, p_floor bigint, p_except json
)
sql security definer
begin
    declare own tinyint default 0;
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
    call postroom_outbox_take(
        present, p_owner, p_token, p_lease, p_batch, p_suspects, p_max_attempts, p_floor, p_except
    );
    if own then
        commit;
    end if;
    select
        present as claimed_at,
        count(*) as taken,
        cast(coalesce(sum(suspect), 0) as signed) as suspects,
        cast(coalesce(sum(reason is not null), 0) as signed) as dead,
        max(case when parked = 0 and suspect = 0 and band = 0 then seq end) as passed,
        not exists (select 1 from postroom_outbox_control where topic = '')
            and (
                exists (select 1 from postroom_outbox_ordered)
                or exists (
                    select 1 from postroom_outbox_parked where band = 1000 and wake_at <= present
                )
            ) as ordered_work
    from postroom_outbox_taken;
    call postroom_outbox_show_taken(present);
end;

-- The items of a claim with their messages. One that is not there is answered all the same and
-- found undecodable.
create procedure postroom_outbox_show_taken(p_present bigint)
sql security definer
begin
    select
        taken.seq, taken.attempts, taken.lost, taken.locked_until, p_present as claimed_at,
        taken.slot as item_slot, taken.key_hash as item_key,
        message.created_at, message.id, message.topic, message.payload, message.content_type,
        message.headers, message.aggregate_type, message.aggregate_id, message.ordering_key,
        message.tenant_id, message.correlation_id, message.causation_id, message.idempotency_key,
        message.occurred_at, message.due_at, message.expires_at, message.priority,
        message.source, message.source_id, message.consumer
    from postroom_outbox_taken as taken
    left join postroom_outbox_message as message force index (primary) on message.seq = taken.seq
    where taken.reason is null
    order by
        taken.band, taken.parked desc, taken.wake_at, taken.slot, taken.key_hash, taken.seq;
end;
