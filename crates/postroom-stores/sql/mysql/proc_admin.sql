-- Replay, discard and purge, each in a transaction of its own.

-- Makes dead messages ready again: [[seq, slot, key_hash, tenant_hash, topic_hash], ...]. It begins
-- by deleting the settled row, as purge does: who gets no row does nothing. Counters begin anew,
-- and an expiry is over: perhaps it died of that. A due time is kept.
create procedure postroom_outbox_run_replay(p_now bigint, p_places json)
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
    call postroom_outbox_tables();
    create temporary table if not exists postroom_outbox_replayed (
        seq bigint not null,
        id binary(16) not null,
        slot smallint,
        key_hash bigint,
        tenant_hash bigint,
        topic_hash bigint not null,
        priority smallint not null,
        due_at bigint,
        primary key (seq)
    ) engine = memory;
    delete from postroom_outbox_replayed;
    insert into postroom_outbox_replayed (
        seq, id, slot, key_hash, tenant_hash, topic_hash, priority, due_at
    )
    select
        settled.seq, settled.id, given.slot, given.key_hash, given.tenant_hash,
        given.topic_hash, message.priority, message.due_at
    from json_table(p_places, '$[*]' columns (
        seq bigint path '$[0]',
        slot smallint path '$[1]',
        key_hash bigint path '$[2]',
        tenant_hash bigint path '$[3]',
        topic_hash bigint path '$[4]'
    )) as given
    straight_join postroom_outbox_settled as settled force index (primary)
        on settled.seq = given.seq
    straight_join postroom_outbox_message as message force index (primary)
        on message.seq = settled.seq
    where settled.state = 2
    order by given.seq
    for update;
    delete settled
    from postroom_outbox_replayed as replayed
    straight_join postroom_outbox_settled as settled force index (primary)
        on settled.seq = replayed.seq;
    delete halt
    from postroom_outbox_replayed as replayed
    straight_join postroom_outbox_halt as halt force index (primary) on halt.seq = replayed.seq;
    insert into postroom_outbox_queue (band, seq, id, topic_hash, tenant_hash)
    select -priority, seq, id, topic_hash, tenant_hash
    from postroom_outbox_replayed
    where slot is null and coalesce(due_at, 0) <= present;
    insert into postroom_outbox_ordered (
        slot, key_hash, seq, id, topic_hash, tenant_hash, priority
    )
    select slot, key_hash, seq, id, topic_hash, tenant_hash, priority
    from postroom_outbox_replayed
    where slot is not null and coalesce(due_at, 0) <= present;
    insert into postroom_outbox_parked (
        seq, band, wake_at, id, slot, key_hash, topic_hash, tenant_hash, priority
    )
    select
        seq, case when slot is null then -priority else 1000 end, due_at, id, slot, key_hash,
        topic_hash, tenant_hash, priority
    from postroom_outbox_replayed
    where due_at > present;
    delete from postroom_outbox_ended;
    insert into postroom_outbox_ended (id, state)
    select id, 2 from postroom_outbox_replayed;
    call postroom_outbox_count_reopened(present);
    if own then
        commit;
    end if;
    select id from postroom_outbox_replayed;
end;

-- Makes messages that nobody holds dead as discarded: ["id", ...]. What was dead before is kept
-- from now on as long as any discarded message.
create procedure postroom_outbox_run_discard(p_now bigint, p_ids json)
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
    call postroom_outbox_tables();
    delete from postroom_outbox_given;
    insert ignore into postroom_outbox_given (place, seq, token, kind, delay, counted)
    select given.place, message.seq, '', 0, 0, 0
    from json_table(p_ids, '$[*]' columns (
        place for ordinality,
        id varchar(32) path '$'
    )) as given
    straight_join postroom_outbox_message as message force index (id)
        on message.id = unhex(given.id);
    call postroom_outbox_discard_live(present);
    -- These were dead before.
    insert into postroom_outbox_candidate (
        seq, id, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select settled.seq, settled.id, 0, 0, '', 0, 0, 0
    from postroom_outbox_given as given
    straight_join postroom_outbox_settled as settled force index (primary)
        on settled.seq = given.seq
    where settled.state = 2
    order by given.seq
    for update;
    update postroom_outbox_candidate as dead
    straight_join postroom_outbox_settled as settled force index (primary) on settled.seq = dead.seq
    set settled.settled_at = present,
        settled.reason = 6
    where settled.reason <> 6;
    delete halt
    from postroom_outbox_candidate as dead
    straight_join postroom_outbox_halt as halt force index (primary) on halt.seq = dead.seq;
    insert into postroom_outbox_settled (
        seq, settled_at, id, attempts, lost, state, reason
    )
    select seq, present, id, attempts, lost, 2, 6 from postroom_outbox_taken;
    delete from postroom_outbox_ended;
    insert into postroom_outbox_ended (id, state)
    select distinct taken.id, 2
    from postroom_outbox_taken as taken
    straight_join postroom_join_message as member force index (message_id)
        on member.message_id = taken.id
    where member.in_inbox = {{in_inbox}} and member.outcome is null;
    if row_count() > 0 then
        call postroom_outbox_count_ended(present);
    end if;
    if own then
        commit;
    end if;
    select id from postroom_outbox_taken
    union all
    select id from postroom_outbox_candidate;
end;

-- Takes the live ones out of their places, into taken. Rows of keys are locked in the order in
-- which claims lock them.
create procedure postroom_outbox_discard_live(p_present bigint)
sql security definer
begin
    delete from postroom_outbox_taken;
    delete from postroom_outbox_candidate;
    insert into postroom_outbox_taken (
        seq, id, band, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select queue.seq, queue.id, queue.band, 0, 0, '', queue.attempts, queue.lost, 0
    from postroom_outbox_given as given
    straight_join postroom_outbox_queue as queue force index (seq) on queue.seq = given.seq
    where queue.leased = 0
    order by given.seq
    for update;
    delete queue
    from postroom_outbox_taken as taken
    straight_join postroom_outbox_queue as queue force index (primary)
        on queue.band = taken.band and queue.seq = taken.seq;
    insert into postroom_outbox_candidate (
        seq, id, slot, key_hash, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select
        queue.seq, queue.id, queue.slot, queue.key_hash, 0, 0, '', queue.attempts, queue.lost, 0
    from postroom_outbox_given as given
    straight_join postroom_outbox_ordered as queue force index (seq) on queue.seq = given.seq
    where queue.leased = 0
    order by queue.slot, queue.key_hash, queue.seq
    for update;
    delete queue
    from postroom_outbox_candidate as free
    straight_join postroom_outbox_ordered as queue force index (primary)
        on queue.slot = free.slot and queue.key_hash = free.key_hash and queue.seq = free.seq;
    insert into postroom_outbox_taken (
        seq, id, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select seq, id, 0, 0, '', attempts, lost, 0 from postroom_outbox_candidate;
    delete from postroom_outbox_candidate;
    insert into postroom_outbox_candidate (
        seq, id, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select parked.seq, parked.id, 0, 0, '', parked.attempts, parked.lost, 0
    from postroom_outbox_given as given
    straight_join postroom_outbox_parked as parked force index (primary) on parked.seq = given.seq
    order by given.seq
    for update;
    delete parked
    from postroom_outbox_candidate as free
    straight_join postroom_outbox_parked as parked force index (primary) on parked.seq = free.seq;
    insert into postroom_outbox_taken (
        seq, id, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select seq, id, 0, 0, '', attempts, lost, 0 from postroom_outbox_candidate;
    delete from postroom_outbox_candidate;
end;

-- Deletes one chunk of settled messages that are old enough. A null age keeps them. It begins by
-- locking the settled row, as replay does. Live messages have none, so they are out of reach.
create procedure postroom_outbox_run_purge(
    p_now bigint, p_done_age bigint, p_dead_age bigint, p_limit int
)
sql security definer
begin
    declare own tinyint default 0;
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    declare room int default p_limit;
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;
    call postroom_begin(own);
    call postroom_outbox_tables();
    delete from postroom_outbox_taken;
    insert into postroom_outbox_taken (
        seq, id, wake_at, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select seq, id, settled_at, 0, 0, '', 0, 0, 0
    from postroom_outbox_settled force index (ageing)
    where state = 1
        and settled_at <= present - p_done_age
    order by settled_at
    limit room
    for update skip locked;
    set room = room - row_count();
    -- A discarded dead letter is kept like a done message.
    insert into postroom_outbox_taken (
        seq, id, wake_at, suspect, leased, old_owner, attempts, lost, locked_until
    )
    select seq, id, settled_at, 0, 0, '', 0, 0, 0
    from postroom_outbox_settled force index (ageing)
    where state = 2
        and settled_at <= present - case when reason = 6 then p_done_age else p_dead_age end
    order by settled_at
    limit room
    for update skip locked;
    delete settled
    from postroom_outbox_taken as old
    straight_join postroom_outbox_settled as settled force index (primary) on settled.seq = old.seq;
    delete halt
    from postroom_outbox_taken as old
    straight_join postroom_outbox_halt as halt force index (primary) on halt.seq = old.seq;
    delete message
    from postroom_outbox_taken as old
    straight_join postroom_outbox_message as message force index (primary) on message.seq = old.seq;
    delete attempt
    from postroom_outbox_taken as old
    straight_join postroom_outbox_attempt as attempt force index (primary) on attempt.id = old.id;
    -- A key may outlive its message, and counts from its end.
    update postroom_outbox_taken as old
    straight_join postroom_outbox_key as taken force index (message_id) on taken.message_id = old.id
    set taken.settled_at = old.wake_at;
    if own then
        commit;
    end if;
    select count(*) as deleted, count(*) >= p_limit as more from postroom_outbox_taken;
end;

-- Deletes one chunk of joins that ended long enough ago: members first, because a join may have a
-- million, then joins without any.
create procedure postroom_outbox_run_purge_joins(p_now bigint, p_age bigint, p_limit int)
sql security definer
begin
    declare own tinyint default 0;
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    declare room int default p_limit;
    declare at_end tinyint default 0;
    declare this_join binary(16);
    declare joins int;
    declare ripe cursor for select id from postroom_join_change;
    declare continue handler for not found set at_end = 1;
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;
    call postroom_begin(own);
    call postroom_join_tables();
    delete from postroom_join_change;
    insert into postroom_join_change (id)
    select id
    from postroom_join_tally force index (ending)
    where state in (1, 2, 3)
        and ended_at <= present - p_age
    order by ended_at
    limit p_limit
    for update skip locked;
    open ripe;
    members: loop
        fetch ripe into this_join;
        if at_end or room = 0 then
            leave members;
        end if;
        delete from postroom_join_message where join_id = this_join limit room;
        set room = room - row_count();
    end loop;
    close ripe;
    delete tally
    from postroom_join_change as ripe
    straight_join postroom_join_tally as tally force index (primary) on tally.id = ripe.id
    where not exists (
        select 1 from postroom_join_message as member where member.join_id = tally.id
    );
    set joins = row_count();
    if own then
        commit;
    end if;
    select joins, room = 0 or joins >= p_limit as more;
end;
