-- Joins: what both boxes share. Locks are taken in one order, places in the queue first and then
-- joins by id, so that nobody waits in a circle. Where the caller's snapshot may be old, rows are
-- read by inserts and updates, which see what is committed.

create procedure postroom_join_tables()
sql security definer
begin
    -- By how much counts change, and which of these joins are open.
    create temporary table if not exists postroom_join_change (
        id binary(16) not null,
        attached int not null default 0,
        done int not null default 0,
        dead int not null default 0,
        primary key (id)
    ) engine = memory;
    create temporary table if not exists postroom_join_open (
        id binary(16) not null,
        primary key (id)
    ) engine = memory;
    -- Joins that end now, and with which message.
    create temporary table if not exists postroom_join_ending (
        id binary(16) not null,
        state smallint not null,
        follow_up binary(16),
        primary key (id)
    ) engine = memory;
    delete from postroom_join_ending;
end;

-- Locks those of the changed joins that are open.
create procedure postroom_join_lock()
sql security definer
begin
    delete from postroom_join_open;
    insert into postroom_join_open (id)
    select tally.id
    from postroom_join_change as changed
    straight_join postroom_join_tally as tally force index (primary) on tally.id = changed.id
    where tally.state = 0
    order by changed.id
    for update;
end;

-- Changes the counts of the open joins, and ends those that count all their members.
create procedure postroom_join_apply(p_present bigint)
sql security definer
begin
    update postroom_join_open as is_open
    straight_join postroom_join_change as changed on changed.id = is_open.id
    straight_join postroom_join_tally as tally force index (primary) on tally.id = is_open.id
    set tally.attached = tally.attached + changed.attached,
        tally.done = tally.done + changed.done,
        tally.dead = tally.dead + changed.dead;
    insert into postroom_join_ending (id, state, follow_up)
    select tally.id, case when tally.dead = 0 then 1 else 2 end, follow_up.id
    from postroom_join_open as is_open
    straight_join postroom_join_tally as tally force index (primary) on tally.id = is_open.id
    left join postroom_join_follow_up as follow_up force index (primary)
        on follow_up.join_id = tally.id
        and follow_up.state = case when tally.dead = 0 then 1 else 2 end
    where tally.state = 0
        and tally.done + tally.dead = tally.expected
    for update;
    if row_count() > 0 then
        update postroom_join_ending as ending
        straight_join postroom_join_tally as tally force index (primary) on tally.id = ending.id
        set tally.state = ending.state,
            tally.ended_at = p_present,
            tally.follow_up = ending.follow_up;
        call postroom_join_publish_all(p_present);
        delete follow_up
        from postroom_join_ending as ending
        straight_join postroom_join_follow_up as follow_up force index (primary)
            on follow_up.join_id = ending.id;
    end if;
end;

create procedure postroom_join_publish_all(p_present bigint)
sql security definer
begin
    declare at_end tinyint default 0;
    declare this_join binary(16);
    declare this_state smallint;
    declare ending cursor for
        select id, state from postroom_join_ending where follow_up is not null order by id;
    declare continue handler for not found set at_end = 1;
    open ending;
    publish: loop
        fetch ending into this_join, this_state;
        if at_end then
            leave publish;
        end if;
        call postroom_join_publish(this_join, this_state, p_present);
    end loop;
    close ending;
end;

-- Publishes a follow-up into the outbox. Its id was fixed when the join was started: whoever used
-- that for a message has published it, perhaps another join.
create procedure postroom_join_publish(p_join binary(16), p_state smallint, p_present bigint)
sql security definer
publish: begin
    declare place bigint;
    declare exit handler for 1062 begin end;
    insert into postroom_outbox_message (
        id, occurred_at, created_at, priority, topic, content_type, aggregate_type, aggregate_id,
        ordering_key, tenant_id, correlation_id, causation_id, headers, payload
    )
    select
        id, p_present, p_present, priority, topic, content_type, aggregate_type, aggregate_id,
        ordering_key, tenant_id, correlation_id, causation_id, headers, payload
    from postroom_join_follow_up
    where join_id = p_join and state = p_state;
    set place = last_insert_id();
    insert into postroom_outbox_ordered (
        slot, key_hash, seq, id, topic_hash, tenant_hash, priority
    )
    select slot, key_hash, place, id, topic_hash, tenant_hash, priority
    from postroom_join_follow_up
    where join_id = p_join and state = p_state and slot is not null;
    if row_count() = 0 then
        insert into postroom_outbox_queue (band, seq, id, topic_hash, tenant_hash)
        select -priority, place, id, topic_hash, tenant_hash
        from postroom_join_follow_up
        where join_id = p_join and state = p_state;
    end if;
end;
