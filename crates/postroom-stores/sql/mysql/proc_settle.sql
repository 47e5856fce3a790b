-- Settling, renewing, reaping. The caller has a transaction.

-- The items in question: [[seq, "token", kind, delay, counted, reason], ...].
create procedure postroom_outbox_read_items(p_items json)
sql security definer
begin
    call postroom_outbox_tables();
    delete from postroom_outbox_given;
    delete from postroom_outbox_held;
    -- An item that is named twice counts once.
    insert ignore into postroom_outbox_given (place, seq, token, kind, delay, counted, reason)
    select
        item.place, item.seq, unhex(item.token), coalesce(item.kind, 1), coalesce(item.delay, 0),
        coalesce(item.counted, 0), item.reason
    from json_table(p_items, '$[*]' columns (
        place for ordinality,
        seq bigint path '$[0]',
        token varchar(32) path '$[1]',
        kind tinyint path '$[2]',
        delay bigint path '$[3]',
        counted tinyint path '$[4]',
        reason smallint path '$[5]'
    )) as item
    where item.seq is not null
        and unhex(item.token) is not null;
end;

-- The fence: an item that was taken over has another token, and after waiting for its lock this
-- reads the new one (B13). In the order of the queue, so that two settles do not deadlock.
create procedure postroom_outbox_hold(p_owner binary(16))
sql security definer
begin
    declare wanted int;
    select count(*) into wanted from postroom_outbox_given;
    insert into postroom_outbox_held (
        place, seq, token, id, band, slot, key_hash, attempts, lost, kind, delay, counted, reason
    )
    select
        given.place, queue.seq, queue.token, queue.id, queue.band, null, null, queue.attempts,
        queue.lost, given.kind, given.delay, given.counted, given.reason
    from postroom_outbox_given as given
    straight_join postroom_outbox_queue as queue force index (seq) on queue.seq = given.seq
    where queue.leased = 1
        and queue.token = given.token
        and queue.owner = p_owner
    order by given.seq
    for update;
    if row_count() < wanted then
        insert into postroom_outbox_held (
            place, seq, token, id, band, slot, key_hash, attempts, lost, kind, delay, counted,
            reason
        )
        select
            given.place, queue.seq, queue.token, queue.id, 1000, queue.slot, queue.key_hash,
            queue.attempts, queue.lost, given.kind, given.delay, given.counted, given.reason
        from postroom_outbox_given as given
        straight_join postroom_outbox_ordered as queue force index (seq) on queue.seq = given.seq
        where queue.leased = 1
            and queue.token = given.token
            and queue.owner = p_owner
        order by given.seq
        for update;
    end if;
end;

-- Settles leased items, mixed outcomes in one go. Kinds: 1 done, 2 dead, 3 retry, 4 release; an
-- error is the seventh part of an item. What was applied is in held afterwards.
create procedure postroom_outbox_settle_items(
    p_now bigint, p_owner binary(16), p_items json, p_keep_done tinyint, p_halt tinyint
)
sql security definer
begin
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    declare others int;
    declare ordered int;
    call postroom_outbox_read_items(p_items);
    call postroom_outbox_hold(p_owner);
    select coalesce(sum(kind <> 1), 0), coalesce(sum(slot is not null), 0) into others, ordered
    from postroom_outbox_held;
    if others > 0 then
        call postroom_outbox_settle_others(present, p_owner, p_items, p_halt);
    end if;
    delete queue
    from postroom_outbox_held as held
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = held.band and queue.seq = held.seq
    where held.kind in (1, 2, 3)
        and held.slot is null;
    if ordered > 0 then
        delete queue
        from postroom_outbox_held as held
        straight_join postroom_outbox_ordered as queue force index (primary)
            on queue.slot = held.slot and queue.key_hash = held.key_hash and queue.seq = held.seq
        where held.kind in (1, 2);
    end if;
    insert into postroom_outbox_settled (
        seq, settled_at, id, settled_by, attempts, lost, state, reason
    )
    select
        seq, present, id, p_owner, attempts + counted, lost, kind,
        case when kind = 2 then reason end
    from postroom_outbox_held
    where kind = 2
        or kind = 1 and p_keep_done;
    if not p_keep_done then
        call postroom_outbox_forget_done(present);
    end if;
    -- An insert reads what is committed now, also where the caller's snapshot is older.
    delete from postroom_outbox_ended;
    insert into postroom_outbox_ended (id, state)
    select distinct held.id, held.kind
    from postroom_outbox_held as held
    straight_join postroom_join_message as member force index (message_id)
        on member.message_id = held.id
    where held.kind in (1, 2)
        and member.in_inbox = {{in_inbox}}
        and member.outcome is null;
    if row_count() > 0 then
        call postroom_outbox_count_ended(present);
    end if;
end;

-- Whatever is not simply done.
create procedure postroom_outbox_settle_others(
    p_present bigint, p_owner binary(16), p_items json, p_halt tinyint
)
sql security definer
begin
    -- Nothing lies beyond the year 9999.
    declare last bigint default 253402300799000000;
    insert into postroom_outbox_parked (
        seq, band, wake_at, id, topic_hash, tenant_hash, priority, expires_at, attempts, lost
    )
    select
        queue.seq, queue.band, least(p_present + held.delay, last), queue.id, queue.topic_hash,
        queue.tenant_hash, -queue.band, queue.expires_at, held.attempts + held.counted, held.lost
    from postroom_outbox_held as held
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = held.band and queue.seq = held.seq
    where held.kind = 3
        and held.slot is null;
    -- An ordered row waits where it is, so that the head of its key stays its lowest row.
    update postroom_outbox_held as held
    straight_join postroom_outbox_ordered as queue force index (primary)
        on queue.slot = held.slot and queue.key_hash = held.key_hash and queue.seq = held.seq
    set queue.leased = 0,
        queue.token = '',
        queue.owner = '',
        queue.locked_until = case
            when held.kind = 3 then least(p_present + held.delay, last) else 0
        end,
        queue.attempts = held.attempts + held.counted
    where held.kind in (3, 4);
    update postroom_outbox_held as held
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = held.band and queue.seq = held.seq
    set queue.leased = 0,
        queue.token = '',
        queue.owner = '',
        queue.locked_until = 0
    where held.kind = 4
        and held.slot is null;
    if p_halt then
        insert into postroom_outbox_halt (seq, key_hash, slot)
        select seq, key_hash, slot
        from postroom_outbox_held
        where kind = 2 and slot is not null;
    end if;
    insert into postroom_outbox_attempt (id, n, at, by_owner, kind, error)
    select held.id, coalesce(max(attempt.n), 0) + 1, p_present, p_owner, 1, max(item.error)
    from postroom_outbox_held as held
    join json_table(p_items, '$[*]' columns (
        place for ordinality,
        error mediumtext character set utf8mb4 path '$[6]'
    )) as item on item.place = held.place
    left join postroom_outbox_attempt as attempt force index (primary) on attempt.id = held.id
    where held.counted
        and held.kind in (2, 3)
    group by held.id;
end;

-- Done without a history: the message goes too. The retention of its key starts now.
create procedure postroom_outbox_forget_done(p_present bigint)
sql security definer
begin
    delete message
    from postroom_outbox_held as held
    straight_join postroom_outbox_message as message force index (primary) on message.seq = held.seq
    where held.kind = 1;
    delete attempt
    from postroom_outbox_held as held
    straight_join postroom_outbox_attempt as attempt force index (primary) on attempt.id = held.id
    where held.kind = 1;
    update postroom_outbox_held as held
    straight_join postroom_outbox_key as taken force index (message_id)
        on taken.message_id = held.id
    set taken.settled_at = p_present
    where held.kind = 1;
end;

-- Extends leases that have not run out. An expired one is never renewed: somebody may be taking it.
-- An ordered row lives no longer than its slot, so the slot goes with it or both stay.
create procedure postroom_outbox_renew_items(
    p_now bigint, p_owner binary(16), p_items json, p_lease bigint
)
sql security definer
begin
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    declare until bigint default present + p_lease;
    declare wanted int;
    call postroom_outbox_read_items(p_items);
    select count(*) into wanted from postroom_outbox_given;
    insert into postroom_outbox_held (
        place, seq, token, id, band, attempts, lost, kind, delay, counted
    )
    select given.place, queue.seq, queue.token, queue.id, queue.band, 0, 0, 0, 0, 0
    from postroom_outbox_given as given
    straight_join postroom_outbox_queue as queue force index (seq) on queue.seq = given.seq
    where queue.leased = 1
        and queue.token = given.token
        and queue.owner = p_owner
        and queue.locked_until > present
    order by given.seq
    for update;
    if row_count() < wanted then
        call postroom_outbox_renew_ordered(present, until, p_owner);
    end if;
    update postroom_outbox_held as held
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = held.band and queue.seq = held.seq
    set queue.locked_until = until
    where held.slot is null;
end;

create procedure postroom_outbox_renew_ordered(
    p_present bigint, p_until bigint, p_owner binary(16)
)
sql security definer
begin
    -- Slots before rows, as claims do.
    delete from postroom_outbox_visiting;
    insert into postroom_outbox_visiting (slot)
    select distinct queue.slot
    from postroom_outbox_given as given
    straight_join postroom_outbox_ordered as queue force index (seq) on queue.seq = given.seq
    where queue.leased = 1
        and queue.token = given.token
        and queue.owner = p_owner
        and queue.locked_until > p_present;
    update postroom_outbox_visiting as visiting
    straight_join postroom_outbox_slot as slot force index (primary) on slot.slot = visiting.slot
    set slot.locked_until = greatest(slot.locked_until, p_until)
    where slot.owner = p_owner
        and slot.locked_until > p_present;
    insert into postroom_outbox_held (
        place, seq, token, id, band, slot, key_hash, attempts, lost, kind, delay, counted
    )
    select
        given.place, queue.seq, queue.token, queue.id, 1000, queue.slot, queue.key_hash,
        0, 0, 0, 0, 0
    from postroom_outbox_given as given
    straight_join postroom_outbox_ordered as queue force index (seq) on queue.seq = given.seq
    straight_join postroom_outbox_slot as slot force index (primary) on slot.slot = queue.slot
    where queue.leased = 1
        and queue.token = given.token
        and queue.owner = p_owner
        and queue.locked_until > p_present
        and slot.owner = p_owner
        and slot.locked_until >= p_until
    order by given.seq
    for update;
    if row_count() > 0 then
        update postroom_outbox_held as held
        straight_join postroom_outbox_ordered as queue force index (primary)
            on queue.slot = held.slot and queue.key_hash = held.key_hash and queue.seq = held.seq
        set queue.locked_until = p_until;
        update postroom_outbox_node
        set live_until = greatest(live_until, p_until)
        where owner = p_owner;
    end if;
end;

-- Returns expired leases to ready, or to dead past the maximum, and makes expired messages dead.
-- Rows are locked as they are read: what was settled meanwhile is not seen (B10). Ordered rows are
-- left to the owner of their slot.
create procedure postroom_outbox_reap_items(
    p_now bigint, p_limit int, p_max_attempts int,
    out p_released int, out p_dead int, out p_more tinyint
)
sql security definer
begin
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    declare lapsed int;
    declare stale int;
    call postroom_outbox_tables();
    delete from postroom_outbox_taken;
    insert into postroom_outbox_taken (
        seq, id, band, suspect, leased, old_owner, attempts, lost, locked_until, reason
    )
    select
        seq, id, band, 1, 1, owner, attempts + (lost > 0), lost + 1, 0,
        case when lost > 0 and attempts + 1 >= p_max_attempts then 3 end
    from postroom_outbox_queue force index (seq)
    where leased = 1
        and locked_until <= present
    order by seq
    limit p_limit
    for update skip locked;
    set lapsed = row_count();
    insert into postroom_outbox_taken (
        seq, id, band, suspect, leased, old_owner, attempts, lost, locked_until, reason
    )
    select seq, id, band, 0, 0, '', attempts, lost, 0, 4
    from postroom_outbox_queue force index (seq)
    where leased = 0
        and expires_at <= present
    order by seq
    limit p_limit
    for update skip locked;
    set stale = row_count();
    set p_limit = p_limit - stale;
    insert into postroom_outbox_taken (
        seq, id, band, parked, suspect, leased, old_owner, attempts, lost, locked_until, reason
    )
    select seq, id, band, 1, 0, 0, '', attempts, lost, 0, 4
    from postroom_outbox_parked
    where slot is null
        and expires_at <= present
    order by seq
    limit p_limit
    for update skip locked;
    set p_more = row_count() >= p_limit or lapsed >= p_limit + stale;
    update postroom_outbox_taken as taken
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = taken.band and queue.seq = taken.seq
    set queue.leased = 0,
        queue.token = '',
        queue.owner = '',
        queue.locked_until = 0,
        queue.attempts = taken.attempts,
        queue.lost = taken.lost
    where taken.reason is null;
    delete queue
    from postroom_outbox_taken as taken
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = taken.band and queue.seq = taken.seq
    where taken.parked = 0 and taken.reason is not null;
    delete parked
    from postroom_outbox_taken as taken
    straight_join postroom_outbox_parked as parked force index (primary) on parked.seq = taken.seq
    where taken.parked = 1;
    -- Nobody settled these: the last owner, where there is one, is in the attempts.
    call postroom_outbox_note_taken(present, null);
    select coalesce(sum(reason is null), 0), coalesce(sum(reason is not null), 0)
    into p_released, p_dead
    from postroom_outbox_taken;
end;

-- The same for the engine, each in a transaction of its own.
create procedure postroom_outbox_run_settle(
    p_now bigint, p_owner binary(16), p_items json, p_keep_done tinyint, p_halt tinyint
)
sql security definer
begin
    declare own tinyint default 0;
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;
    call postroom_begin(own);
    call postroom_outbox_settle_items(p_now, p_owner, p_items, p_keep_done, p_halt);
    if own then
        commit;
    end if;
    select seq, token, (select count(*) from postroom_join_ending) as joins_ended
    from postroom_outbox_held;
end;

create procedure postroom_outbox_run_renew(
    p_now bigint, p_owner binary(16), p_items json, p_lease bigint
)
sql security definer
begin
    declare own tinyint default 0;
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;
    call postroom_begin(own);
    call postroom_outbox_renew_items(p_now, p_owner, p_items, p_lease);
    if own then
        commit;
    end if;
    select seq, token from postroom_outbox_held;
end;

create procedure postroom_outbox_run_reap(p_now bigint, p_limit int, p_max_attempts int)
sql security definer
begin
    declare own tinyint default 0;
    declare released int;
    declare dead int;
    declare more tinyint;
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;
    call postroom_begin(own);
    call postroom_outbox_reap_items(p_now, p_limit, p_max_attempts, released, dead, more);
    if own then
        commit;
    end if;
    select released, dead, more;
end;
