-- Postroom for any language: claim, settle and reap. They are built from the same procedures as the
-- claims and settles of the Rust store. Each works in the caller's transaction, or else in one of
-- its own, and answers when that is committed.

-- Leases up to p_batch messages to an owner. Settle each with its seq and token before the lease
-- ends. Messages of one ordering key come in order, and no more of it come before those are
-- settled: handle them one after the other, and when one does not end as done or dead, release the
-- rest.
create procedure postroom_outbox_claim(
    in p_owner char(36) character set utf8mb4, in p_lease_seconds decimal(12, 6), in p_batch int,
    in p_options json
)
sql security definer
begin
    declare own tinyint default 0;
    declare owner_id binary(16);
    declare token_id binary(16);
    declare token_text char(36) character set utf8mb4;
    declare bytes binary(32);
    declare options json;
    declare lease bigint default coalesce(p_lease_seconds, 30) * 1000000;
    declare room int default coalesce(p_batch, 50);
    declare suspects int;
    declare max_attempts int;
    declare halts tinyint;
    declare step tinyint default 1;
    -- Both kinds come first in turn, and so do the keys.
    declare plain_step tinyint default if(rand() < 0.5, 1, 3);
    declare from_slot smallint default floor(256 * rand());
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;

    call postroom_read_uuid('owner', p_owner, owner_id);
    call postroom_check_bounds(
        'owner', 'a UUID other than nil', p_owner, owner_id <> unhex(repeat('00', 16))
    );
    call postroom_check_bounds(
        'lease', 'more than 0 and at most 24 h', concat(p_lease_seconds, ' s'),
        lease between 1 and 86400000000
    );
    call postroom_check_bounds('batch', '1 to 10000', room, room between 1 and 10000);
    call postroom_read_options(p_options, json_object(
        'suspects', 'integer', 'max_attempts', 'integer', 'halt', 'flag'
    ), options);
    set suspects = coalesce(cast(json_extract(options, '$.suspects') as signed), 1),
        max_attempts = coalesce(cast(json_extract(options, '$.max_attempts') as signed), 10),
        halts = coalesce(json_unquote(json_extract(options, '$.halt')) in ('true', '1'), 0);
    call postroom_check_bounds('suspects', '0 or more', suspects, suspects >= 0);
    call postroom_draw(bytes);
    set token_id = left(bytes, 16);
    call postroom_show_uuid(token_id, token_text);

    create temporary table if not exists postroom_outbox_claimed (
        seq bigint not null,
        step tinyint not null,
        band smallint not null,
        parked tinyint not null,
        wake_at bigint not null,
        slot smallint not null,
        key_hash bigint not null,
        locked_until bigint not null,
        attempts int not null,
        lost int not null,
        primary key (seq)
    ) engine = memory;
    delete from postroom_outbox_claimed;
    call postroom_begin(own);
    while step <= 3 and room > 0 do
        if step = plain_step then
            call postroom_outbox_take(
                null, owner_id, token_id, lease, room, least(room, suspects), max_attempts, 0, null
            );
        else
            call postroom_outbox_take_ordered(
                null, owner_id, token_id, lease, room, least(room, suspects), max_attempts,
                from_slot, null, null, null, halts
            );
            -- The second time from the first key.
            set from_slot = null;
        end if;
        insert into postroom_outbox_claimed (
            seq, step, band, parked, wake_at, slot, key_hash, locked_until, attempts, lost
        )
        select
            taken.seq, step, taken.band, taken.parked, taken.wake_at, taken.slot, taken.key_hash,
            taken.locked_until, taken.attempts, taken.lost
        from postroom_outbox_taken as taken
        where taken.reason is null;
        set room = room - row_count(), step = step + 1;
    end while;
    if own then
        commit;
    end if;
    call postroom_outbox_show_claimed(token_text);
end;

-- The messages of a claim. A locking read: it sees them however old the caller's snapshot is.
create procedure postroom_outbox_show_claimed(in p_token char(36) character set utf8mb4)
sql security definer
begin
    select
        claimed.seq,
        p_token as token,
        timestampadd(microsecond, claimed.locked_until, timestamp'1970-01-01 00:00:00')
            as locked_until,
        claimed.attempts,
        claimed.lost,
        timestampadd(microsecond, message.created_at, timestamp'1970-01-01 00:00:00')
            as created_at,
        insert(insert(insert(insert(
            lower(hex(message.id)), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-') as id,
        convert(message.topic using utf8mb4) as topic,
        message.payload,
        coalesce(convert(message.content_type using utf8mb4), 'application/json') as content_type,
        convert(message.headers using utf8mb4) as headers,
        convert(message.aggregate_type using utf8mb4) as aggregate_type,
        convert(message.aggregate_id using utf8mb4) as aggregate_id,
        convert(message.ordering_key using utf8mb4) as ordering_key,
        convert(message.tenant_id using utf8mb4) as tenant_id,
        convert(message.correlation_id using utf8mb4) as correlation_id,
        convert(message.causation_id using utf8mb4) as causation_id,
        insert(insert(insert(insert(
            lower(hex(message.idempotency_key)), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-')
            as idempotency_key,
        timestampadd(microsecond, message.occurred_at, timestamp'1970-01-01 00:00:00')
            as occurred_at,
        timestampadd(microsecond, message.due_at, timestamp'1970-01-01 00:00:00') as due_at,
        timestampadd(microsecond, message.expires_at, timestamp'1970-01-01 00:00:00')
            as expires_at,
        message.priority,
        convert(message.source using utf8mb4) as source,
        convert(message.source_id using utf8mb4) as source_id,
        convert(message.consumer using utf8mb4) as consumer
    from postroom_outbox_claimed as claimed
    straight_join postroom_outbox_message as message on message.seq = claimed.seq
    order by
        claimed.step, claimed.band, claimed.parked desc, claimed.wake_at, claimed.slot,
        claimed.key_hash, claimed.seq
    lock in share mode;
end;

-- A part of the items; what it was applied to is noted. Kind 0 renews for p_delay.
create procedure postroom_outbox_settle_part(
    in p_owner binary(16), in p_part longtext character set utf8mb4, in p_kind tinyint,
    in p_delay bigint, in p_keep_done tinyint, in p_halt tinyint
)
sql security definer
begin
    declare items json default concat('[', p_part, ']');
    if p_kind = 0 then
        call postroom_outbox_renew_items(null, p_owner, items, p_delay);
    else
        call postroom_outbox_settle_items(null, p_owner, items, p_keep_done, p_halt);
    end if;
    insert ignore into postroom_outbox_applied (seq)
    select held.seq from postroom_outbox_held as held;
end;

-- The same outcome for all items, and the answer. Kinds: 0 renew, 1 done, 2 dead, 3 retry,
-- 4 release. A retry without a delay waits 200 ms, doubled per attempt up to 60 s, with jitter, and
-- is dead when the attempts are used up.
create procedure postroom_outbox_settle_each(
    in p_owner char(36) character set utf8mb4, in p_items json, in p_kind tinyint,
    in p_counted tinyint, in p_reason smallint, in p_error longtext character set utf8mb4,
    in p_delay bigint, in p_max_attempts int, in p_keep_done tinyint, in p_halt tinyint
)
sql security definer
begin
    declare own tinyint default 0;
    declare at_end tinyint default 0;
    declare owner_id binary(16);
    declare item_seq bigint;
    declare item_token varchar(64) character set utf8mb4;
    declare item_attempts int;
    declare is_last tinyint;
    declare error_json longtext character set utf8mb4 default 'null';
    declare part longtext character set utf8mb4;
    declare part_items int default 0;
    -- In the order of seq, so that two settles do not deadlock.
    declare item cursor for
        select given.seq, given.token, coalesce(queue.attempts, line.attempts, 0)
        from (
            select distinct listed.seq, replace(listed.token, '-', '') as token
            from json_table(p_items, '$[*]' columns (
                seq bigint path '$[0]',
                token varchar(64) character set utf8mb4 path '$[1]'
            )) as listed
            where listed.seq is not null
        ) as given
        left join postroom_outbox_queue as queue on p_kind = 3 and queue.seq = given.seq
        left join postroom_outbox_ordered as line on p_kind = 3 and line.seq = given.seq
        where char_length(given.token) = 32
            and not given.token regexp '[^0-9A-Fa-f]'
        order by given.seq;
    declare continue handler for not found set at_end = 1;
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;

    call postroom_read_uuid('owner', p_owner, owner_id);
    if not json_valid(p_items) then
        call postroom_refuse('items must be a JSON array of [seq, "token"]');
    end if;
    if json_type(p_items) <> 'ARRAY' then
        call postroom_refuse('items must be a JSON array of [seq, "token"]');
    end if;
    if octet_length(p_error) > 0 then
        set error_json = json_quote(left(p_error, 2000));
    end if;
    create temporary table if not exists postroom_outbox_applied (
        seq bigint not null,
        primary key (seq)
    ) engine = memory;
    delete from postroom_outbox_applied;
    call postroom_begin(own);
    open item;
    items: loop
        set at_end = 0;
        fetch item into item_seq, item_token, item_attempts;
        -- A text that grows by an item is copied each time, so it does not grow without end.
        if part_items > 0 and (at_end or part_items >= 100) then
            call postroom_outbox_settle_part(
                owner_id, part, p_kind, p_delay, p_keep_done, p_halt
            );
            set part = null, part_items = 0;
        end if;
        if item_seq is null then
            leave items;
        end if;
        set is_last = p_kind = 3 and p_delay is null and item_attempts + 1 >= p_max_attempts;
        set part = concat_ws(',', part, concat(
                '[', item_seq, ',"', item_token, '",', if(is_last, 2, p_kind), ',',
                coalesce(p_delay, cast(
                    least(60e6, 200e3 * pow(2, least(item_attempts, 20))) * (0.5 + rand()) as signed
                )), ',',
                p_counted, ',', coalesce(if(is_last, 1, p_reason), 'null'), ',', error_json, ']'
            )),
            part_items = part_items + 1,
            item_seq = null;
    end loop;
    close item;
    if own then
        commit;
    end if;
    select applied.seq from postroom_outbox_applied as applied order by applied.seq;
end;

-- Done. Answers with the seqs that this applied to; the others were not the owner's any more.
create procedure postroom_outbox_ack(
    in p_owner char(36) character set utf8mb4, in p_items json, in p_options json
)
sql security definer
begin
    declare options json;
    call postroom_read_options(p_options, json_object('keep_done', 'flag'), options);
    call postroom_outbox_settle_each(
        p_owner, p_items, 1, 0, null, null, 0, 0,
        coalesce(json_unquote(json_extract(options, '$.keep_done')) in ('true', '1'), 1), 0
    );
end;

-- Tried and failed: again later, or dead when the attempts are used up. With a delay always again.
create procedure postroom_outbox_abandon(
    in p_owner char(36) character set utf8mb4, in p_items json, in p_options json
)
sql security definer
begin
    declare options json;
    declare delay_seconds decimal(20, 6);
    call postroom_read_options(p_options, json_object(
        'error', 'string', 'delay_seconds', 'number', 'max_attempts', 'integer', 'halt', 'flag'
    ), options);
    set delay_seconds = cast(json_extract(options, '$.delay_seconds') as decimal(20, 6));
    call postroom_check_bounds(
        'delay', 'more than 0', concat(delay_seconds, ' s'),
        delay_seconds is null or delay_seconds > 0
    );
    call postroom_outbox_settle_each(
        p_owner, p_items, 3, 1, null, json_unquote(json_extract(options, '$.error')),
        -- Nothing lies beyond the year 9999.
        cast(least(delay_seconds, 300000000000) * 1000000 as signed),
        coalesce(cast(json_extract(options, '$.max_attempts') as signed), 10), 1,
        coalesce(json_unquote(json_extract(options, '$.halt')) in ('true', '1'), 0)
    );
end;

-- Will never work: dead. With halt it stops its ordering key until somebody replays or discards it.
create procedure postroom_outbox_fail(
    in p_owner char(36) character set utf8mb4, in p_items json, in p_options json
)
sql security definer
begin
    declare options json;
    call postroom_read_options(p_options, json_object('error', 'string', 'halt', 'flag'), options);
    call postroom_outbox_settle_each(
        p_owner, p_items, 2, 1, 2, json_unquote(json_extract(options, '$.error')), 0, 0, 1,
        coalesce(json_unquote(json_extract(options, '$.halt')) in ('true', '1'), 0)
    );
end;

-- Never tried: ready at once, no attempt.
create procedure postroom_outbox_release(
    in p_owner char(36) character set utf8mb4, in p_items json
)
sql security definer
begin
    call postroom_outbox_settle_each(p_owner, p_items, 4, 0, null, null, 0, 0, 1, 0);
end;

-- Extends leases that have not run out.
create procedure postroom_outbox_renew(
    in p_owner char(36) character set utf8mb4, in p_items json, in p_lease_seconds decimal(12, 6)
)
sql security definer
begin
    declare lease bigint default coalesce(p_lease_seconds, 30) * 1000000;
    call postroom_check_bounds(
        'lease', 'more than 0 and at most 24 h', concat(p_lease_seconds, ' s'),
        lease between 1 and 86400000000
    );
    call postroom_outbox_settle_each(p_owner, p_items, 0, 0, null, null, lease, 0, 1, 0);
end;

-- Returns expired leases to ready, or to dead past the maximum, and makes expired messages dead.
create procedure postroom_outbox_reap(in p_max_rows int, in p_max_attempts int)
sql security definer
begin
    declare own tinyint default 0;
    declare max_rows int default coalesce(p_max_rows, 1000);
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
    call postroom_check_bounds(
        'max_rows', '1 to 10000', max_rows, max_rows between 1 and 10000
    );
    call postroom_begin(own);
    call postroom_outbox_reap_items(
        null, max_rows, coalesce(p_max_attempts, 10), released, dead, more
    );
    if own then
        commit;
    end if;
    select released, dead, more;
end;

-- Gives an owner's share of the ordered messages to the others. For an owner that stops.
create procedure postroom_outbox_leave(in p_owner char(36) character set utf8mb4)
sql security definer
begin
    declare own tinyint default 0;
    declare owner_id binary(16);
    declare exit handler for sqlexception
    begin
        if own then
            rollback;
        end if;
        resignal;
    end;
    call postroom_read_uuid('owner', p_owner, owner_id);
    call postroom_begin(own);
    call postroom_outbox_leave_slots(owner_id);
    if own then
        commit;
    end if;
end;
