-- Joins: what each box has of its own.

-- Members that are in ended were settled: counts them. The caller holds their places in the queue,
-- so that nobody attaches one at the same time.
create procedure postroom_outbox_count_ended(p_present bigint)
sql security definer
begin
    delete from postroom_join_change;
    insert into postroom_join_change (id, done, dead)
    select member.join_id, sum(ended.state = 1), sum(ended.state = 2)
    from postroom_outbox_ended as ended
    straight_join postroom_join_message as member force index (message_id)
        on member.message_id = ended.id
    where member.in_inbox = {{in_inbox}}
        and member.outcome is null
    group by member.join_id;
    call postroom_join_lock();
    update postroom_outbox_ended as ended
    straight_join postroom_join_message as member force index (message_id)
        on member.message_id = ended.id
    straight_join postroom_join_open as is_open on is_open.id = member.join_id
    set member.outcome = ended.state
    where member.in_inbox = {{in_inbox}}
        and member.outcome is null;
    call postroom_join_apply(p_present);
end;

-- Messages that are in ended are live again: an open join counts them no longer.
create procedure postroom_outbox_count_reopened(p_present bigint)
sql security definer
begin
    delete from postroom_join_change;
    insert into postroom_join_change (id, dead)
    select member.join_id, -count(*)
    from postroom_outbox_ended as ended
    straight_join postroom_join_message as member force index (message_id)
        on member.message_id = ended.id
    where member.in_inbox = {{in_inbox}}
        and member.outcome = 2
    group by member.join_id;
    if row_count() > 0 then
        call postroom_join_lock();
        update postroom_outbox_ended as ended
        straight_join postroom_join_message as member force index (message_id)
            on member.message_id = ended.id
        straight_join postroom_join_open as is_open on is_open.id = member.join_id
        set member.outcome = null
        where member.in_inbox = {{in_inbox}}
            and member.outcome = 2;
        call postroom_join_apply(p_present);
    end if;
end;

-- What there is to know about messages that are to be members: [["join", "message", fresh], ...];
-- fresh says that this transaction itself wrote the message. When it answers, nothing of that can
-- change before the end of the transaction. Answers in the order given; standing: 0 live, 1 done,
-- 2 dead, none when there is no such message.
create procedure postroom_outbox_run_join_look(p_attaches json)
sql security definer
begin
    call postroom_outbox_tables();
    create temporary table if not exists postroom_outbox_attaching (
        place int not null,
        join_id binary(16) not null,
        message_id binary(16) not null,
        fresh tinyint not null,
        seq bigint,
        standing smallint,
        member_in_inbox tinyint,
        state smallint,
        expected int,
        attached int,
        primary key (place)
    ) engine = memory;
    delete from postroom_outbox_attaching;
    insert into postroom_outbox_attaching (place, join_id, message_id, fresh)
    select attach.place, unhex(attach.join_id), unhex(attach.message_id), attach.fresh
    from json_table(p_attaches, '$[*]' columns (
        place for ordinality,
        join_id varchar(32) path '$[0]',
        message_id varchar(32) path '$[1]',
        fresh tinyint path '$[2]'
    )) as attach;
    call postroom_outbox_hold_places();
    delete from postroom_join_change;
    insert into postroom_join_change (id)
    select distinct join_id from postroom_outbox_attaching;
    call postroom_join_lock();
    update postroom_outbox_attaching as attaching
    straight_join postroom_join_tally as tally force index (primary) on tally.id = attaching.join_id
    set attaching.state = tally.state,
        attaching.expected = tally.expected,
        attaching.attached = tally.attached,
        tally.expected = tally.expected;
    -- After the joins, as a settle does.
    update postroom_outbox_attaching as attaching
    straight_join postroom_join_message as member force index (primary)
        on member.join_id = attaching.join_id and member.message_id = attaching.message_id
    set attaching.member_in_inbox = member.in_inbox,
        member.in_inbox = member.in_inbox;
    select state, expected, attached, member_in_inbox, standing
    from postroom_outbox_attaching
    order by place;
end;

-- Locks the places of messages that are to be members. A settle deletes the place in the queue and
-- a replay the settled row, so one waits for the other. A row can move from one table to another
-- between two looks: then look again.
create procedure postroom_outbox_hold_places()
sql security definer
begin
    declare rounds int default 0;
    declare unseen int;
    update postroom_outbox_attaching as attaching
    straight_join postroom_outbox_message as message force index (id)
        on message.id = attaching.message_id
    set attaching.seq = message.seq,
        attaching.standing = case when attaching.fresh then 0 end,
        message.priority = message.priority;
    look: loop
        select count(*) into unseen
        from postroom_outbox_attaching
        where seq is not null and standing is null;
        if unseen = 0 then
            leave look;
        end if;
        set rounds = rounds + 1;
        if rounds > 100 then
            signal sqlstate '40001'
            set message_text = 'a message moves too fast to become a member of a join';
        end if;
        update postroom_outbox_attaching as attaching
        straight_join postroom_outbox_queue as queue force index (seq)
            on queue.seq = attaching.seq
        set attaching.standing = 0,
            queue.lost = queue.lost
        where attaching.standing is null;
        update postroom_outbox_attaching as attaching
        straight_join postroom_outbox_ordered as queue force index (seq)
            on queue.seq = attaching.seq
        set attaching.standing = 0,
            queue.lost = queue.lost
        where attaching.standing is null;
        update postroom_outbox_attaching as attaching
        straight_join postroom_outbox_parked as queue force index (primary)
            on queue.seq = attaching.seq
        set attaching.standing = 0,
            queue.lost = queue.lost
        where attaching.standing is null;
        update postroom_outbox_attaching as attaching
        straight_join postroom_outbox_settled as settled force index (primary)
            on settled.seq = attaching.seq
        set attaching.standing = settled.state,
            settled.lost = settled.lost
        where attaching.standing is null;
    end loop;
end;

-- Writes members that were looked at and found to be new: [["join", "message", outcome], ...]; the
-- look holds the locks. An outcome is given for what is settled already.
create procedure postroom_outbox_run_join_add(p_now bigint, p_members json)
sql security definer
begin
    declare present bigint default coalesce(
        p_now, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    );
    call postroom_outbox_tables();
    insert into postroom_join_message (join_id, message_id, in_inbox, outcome)
    select unhex(member.join_id), unhex(member.message_id), {{in_inbox}}, member.outcome
    from json_table(p_members, '$[*]' columns (
        join_id varchar(32) path '$[0]',
        message_id varchar(32) path '$[1]',
        outcome smallint path '$[2]'
    )) as member;
    delete from postroom_join_change;
    insert into postroom_join_change (id, attached, done, dead)
    select
        unhex(member.join_id), count(*), coalesce(sum(member.outcome = 1), 0),
        coalesce(sum(member.outcome = 2), 0)
    from json_table(p_members, '$[*]' columns (
        join_id varchar(32) path '$[0]',
        outcome smallint path '$[2]'
    )) as member
    group by member.join_id;
    call postroom_join_lock();
    call postroom_join_apply(present);
end;
