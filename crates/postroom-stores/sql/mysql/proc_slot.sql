-- Slots: who may claim the ordered rows in them. The caller has a transaction.

-- Frees those of an owner's slots that are above a number, but those in which it holds rows.
-- Whoever has a slot locked is claiming there.
create procedure postroom_outbox_free_slots(p_owner binary(16), p_above smallint)
sql security definer
begin
    call postroom_outbox_tables();
    delete from postroom_outbox_visiting;
    insert into postroom_outbox_visiting (slot)
    select slot
    from postroom_outbox_slot
    where owner = p_owner and slot > p_above
    for update skip locked;
    -- By an insert, which reads without locks: a settle may have these rows.
    delete from postroom_outbox_visited;
    insert into postroom_outbox_visited (slot, key_hash, seq, is_open, is_suspect)
    select distinct queue.slot, 0, 0, 0, 0
    from postroom_outbox_visiting as idle
    straight_join postroom_outbox_ordered as queue force index (primary) on queue.slot = idle.slot
    where queue.leased = 1
        and queue.owner = p_owner;
    update postroom_outbox_visiting as idle
    straight_join postroom_outbox_slot as mine force index (primary) on mine.slot = idle.slot
    left join postroom_outbox_visited as busy on busy.slot = idle.slot
    set mine.owner = null,
        mine.locked_until = null
    where busy.slot is null;
end;

create procedure postroom_outbox_leave_slots(p_owner binary(16))
sql security definer
begin
    delete from postroom_outbox_node where owner = p_owner;
    delete from postroom_outbox_dispatcher where owner = p_owner;
    call postroom_outbox_free_slots(p_owner, -1);
end;

-- Gives an owner its fair share of the slots, and says until when at least it may use them.
create procedure postroom_outbox_share_slots(
    p_owner binary(16), p_present bigint, p_lease bigint, out p_until bigint
)
sql security definer
begin
    declare renewed bigint default p_present + p_lease;
    -- Renewed seldom, so that a claim writes nothing here.
    declare stale bigint default p_present + p_lease div 3 * 2;
    declare share int;
    declare mine int;
    declare last smallint;
    declare found tinyint;
    -- By selects of their own: a condition would read with locks, and wait for others' claims.
    select count(*) into found
    from postroom_outbox_node
    where owner = p_owner and live_until >= stale;
    if found = 0 then
        insert into postroom_outbox_node (owner, live_until)
        values (p_owner, renewed)
        on duplicate key update live_until = renewed;
        -- Looked for first: a search by a delete locks the rows of others.
        select exists (
            select 1 from postroom_outbox_node where live_until < p_present - 86400000000
        ) into found;
        if found then
            delete from postroom_outbox_node where live_until < p_present - 86400000000;
        end if;
    end if;
    select ceil(256 / count(*)) into share
    from postroom_outbox_node
    where live_until > p_present;
    select count(*), min(locked_until) into mine, p_until
    from postroom_outbox_slot
    where owner = p_owner and locked_until > p_present;
    if mine > share then
        set share = share - 1;
        select slot into last
        from postroom_outbox_slot
        where owner = p_owner and locked_until > p_present
        order by slot
        limit 1 offset share;
        set share = share + 1;
        call postroom_outbox_free_slots(p_owner, last);
        select min(locked_until) into p_until
        from postroom_outbox_slot
        where owner = p_owner and locked_until > p_present and slot <= last;
    end if;
    if p_until < stale then
        update postroom_outbox_slot
        set locked_until = renewed
        where owner = p_owner and locked_until > p_present and locked_until < stale;
        select min(locked_until) into p_until
        from postroom_outbox_slot
        where owner = p_owner and locked_until > p_present;
    end if;
    if mine < share then
        set share = share - mine;
        delete from postroom_outbox_visiting;
        insert into postroom_outbox_visiting (slot)
        select slot
        from postroom_outbox_slot
        where locked_until is null or locked_until <= p_present
        order by slot
        limit share
        for update skip locked;
        update postroom_outbox_visiting as idle
        straight_join postroom_outbox_slot as free force index (primary) on free.slot = idle.slot
        set free.owner = p_owner,
            free.locked_until = renewed;
    end if;
    set p_until = least(coalesce(p_until, renewed), renewed);
end;

-- For the engine, in a transaction of its own.
create procedure postroom_outbox_run_leave(p_owner binary(16))
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
    call postroom_outbox_leave_slots(p_owner);
    if own then
        commit;
    end if;
end;
