-- Claims of rows without an ordering key in which tenants take turns: see
-- postroom_core::store::tenants. A tenant is the hash of its name; rows without one have the lowest
-- number there is, and null in the tables. The caller has a transaction.

-- The temporary tables of a session, made once: who has something to take, and whose turn it is.
create procedure postroom_outbox_tenant_tables()
sql security definer
begin
    create temporary table if not exists postroom_outbox_tenant_found (
        tenant bigint not null,
        primary key (tenant)
    ) engine = memory;
    create temporary table if not exists postroom_outbox_tenant_turn (
        place int not null,
        tenant bigint not null,
        primary key (place)
    ) engine = memory;
    delete from postroom_outbox_tenant_found;
    delete from postroom_outbox_tenant_turn;
end;

-- The first tenant from p_upto down to p_least that has something to take in the queue. From above,
-- because the newest row of a tenant with a backlog is ready, and its oldest ones are leased.
create procedure postroom_outbox_next_queued(
    p_present bigint, p_suspects int, p_left_out json, p_upto bigint, p_least bigint,
    out p_next bigint
)
sql security definer
begin
    declare nobodys tinyint default 0;
    select (
        select tenant_hash
        from postroom_outbox_queue force index (tenants)
        where tenant_hash <= p_upto
            and tenant_hash >= p_least
            and (
                leased = 0 and lost = 0
                or p_suspects > 0 and (leased = 0 or locked_until <= p_present)
            )
            and (
                p_left_out is null
                or not json_contains(p_left_out, json_quote(cast(topic_hash as char)))
            )
        order by tenant_hash desc, band desc, seq desc
        limit 1
    ) into p_next;
    if p_next is null and p_least = -9223372036854775808 then
        select exists (
            select 1
            from postroom_outbox_queue force index (tenants)
            where tenant_hash is null
                and (
                    leased = 0 and lost = 0
                    or p_suspects > 0 and (leased = 0 or locked_until <= p_present)
                )
                and (
                    p_left_out is null
                    or not json_contains(p_left_out, json_quote(cast(topic_hash as char)))
                )
            order by band desc, seq desc
            limit 1
        ) into nobodys;
        if nobodys then
            set p_next = -9223372036854775808;
        end if;
    end if;
end;

-- The first one that waits for something, due or not.
create procedure postroom_outbox_next_waiting(
    p_upto bigint, p_least bigint, out p_next bigint
)
sql security definer
begin
    declare nobodys tinyint default 0;
    select (
        select tenant_hash
        from postroom_outbox_parked force index (tenants)
        where tenant_hash <= p_upto
            and tenant_hash >= p_least
        order by tenant_hash desc
        limit 1
    ) into p_next;
    if p_next is null and p_least = -9223372036854775808 then
        select exists (
            select 1 from postroom_outbox_parked force index (tenants) where tenant_hash is null
        ) into nobodys;
        if nobodys then
            set p_next = -9223372036854775808;
        end if;
    end if;
end;

-- The band of a tenant's waiting rows that comes behind another one.
create procedure postroom_outbox_next_band(
    p_tenant bigint, p_after smallint, out p_band smallint
)
sql security definer
begin
    select (
        select band
        from postroom_outbox_parked force index (tenants)
        where tenant_hash <=> p_tenant
            and band > p_after
            and band <= 100
        order by band
        limit 1
    ) into p_band;
end;

-- Whether something of a tenant came due that may be taken.
create procedure postroom_outbox_is_due(
    p_present bigint, p_suspects int, p_left_out json, p_tenant bigint, out p_due tinyint
)
sql security definer
begin
    declare this_band smallint;
    set p_due = 0;
    call postroom_outbox_next_band(nullif(p_tenant, -9223372036854775808), -1000, this_band);
    while this_band is not null and not p_due do
        select exists (
            select 1
            from postroom_outbox_parked force index (tenants)
            where tenant_hash <=> nullif(p_tenant, -9223372036854775808)
                and band = this_band
                and wake_at <= p_present
                and (lost = 0 or p_suspects > 0)
                and (
                    p_left_out is null
                    or not json_contains(p_left_out, json_quote(cast(topic_hash as char)))
                )
        ) into p_due;
        call postroom_outbox_next_band(
            nullif(p_tenant, -9223372036854775808), this_band, this_band
        );
    end while;
end;

-- The next tenants that have something to take: below p_after to the lowest, then from the highest
-- down to p_after. They are in tenant_turn afterwards. p_last is where it ended, null when it was
-- around. Each step is a search for the next tenant.
create procedure postroom_outbox_find_tenants(
    p_present bigint, p_suspects int, p_left_out json, p_after bigint, p_wanted int, p_looks int,
    out p_last bigint
)
sql security definer
begin
    declare in_queue tinyint default 1;
    declare is_below tinyint;
    declare upto bigint;
    declare least_one bigint;
    declare here bigint;
    declare steps int;
    declare is_due tinyint;
    declare looked_until bigint;
    call postroom_outbox_tenant_tables();
    while in_queue >= 0 do
        set steps = 0,
            is_below = p_after > -9223372036854775808,
            upto = if(is_below, p_after - 1, 9223372036854775807),
            least_one = -9223372036854775808;
        if not in_queue then
            -- Mostly nothing is due, and nobody has to be looked for.
            select
                exists (
                    select 1 from postroom_outbox_parked force index (waking)
                    where band = 0 and wake_at <= p_present
                ) or exists (
                    select 1 from postroom_outbox_parked force index (waking)
                    where band between -100 and -1 and wake_at <= p_present
                ) or exists (
                    select 1 from postroom_outbox_parked force index (waking)
                    where band between 1 and 100 and wake_at <= p_present
                )
            into is_due;
            if not is_due then
                set steps = p_looks;
            end if;
        end if;
        walk: while steps < if(in_queue, p_wanted, p_looks) do
            if in_queue then
                call postroom_outbox_next_queued(
                    p_present, p_suspects, p_left_out, upto, least_one, here
                );
            else
                call postroom_outbox_next_waiting(upto, least_one, here);
            end if;
            if here is not null then
                set steps = steps + 1, is_due = 1;
                if not in_queue then
                    call postroom_outbox_is_due(p_present, p_suspects, p_left_out, here, is_due);
                    if steps = p_looks then
                        set looked_until = here;
                    end if;
                end if;
                if is_due then
                    insert ignore into postroom_outbox_tenant_found (tenant) values (here);
                end if;
            end if;
            if here > least_one then
                set upto = here - 1;
            elseif is_below then
                set is_below = 0, upto = 9223372036854775807, least_one = p_after;
            else
                leave walk;
            end if;
        end while;
        set in_queue = in_queue - 1;
    end while;
    -- Nobody behind the last one that was looked at: there may be others that come first.
    delete from postroom_outbox_tenant_found
    where looked_until is not null
        and (
            tenant >= p_after and looked_until < p_after
            or (tenant >= p_after) = (looked_until >= p_after) and tenant < looked_until
        );
    insert into postroom_outbox_tenant_turn (place, tenant)
    select row_number() over (order by tenant >= p_after, tenant desc) - 1, tenant
    from postroom_outbox_tenant_found
    order by 1
    limit p_wanted;
    select (
        select tenant from postroom_outbox_tenant_turn where place = p_wanted - 1
    ) into p_last;
    set p_last = coalesce(p_last, looked_until);
end;

-- As scan_queue, of one tenant: its place is kept with each row.
create procedure postroom_outbox_scan_queue_of(
    p_present bigint, p_until bigint, p_max_attempts int, p_left_out json, p_tenant bigint,
    p_place int, p_first_band smallint, p_last_band smallint, p_below bigint, p_suspects tinyint,
    p_limit int, out p_found int
)
sql security definer
begin
    set p_found = 0;
    if p_limit > 0 and not p_suspects then
        insert into postroom_outbox_taken (
            seq, id, band, slot, suspect, leased, old_owner, attempts, lost, locked_until, reason
        )
        select
            seq, id, band, p_place, 0, 0, '', attempts, lost, p_until,
            case when expires_at <= p_present then 4 end
        from postroom_outbox_queue force index (tenants)
        where tenant_hash <=> p_tenant
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
            seq, id, band, slot, suspect, leased, old_owner, attempts, lost, locked_until, reason
        )
        select
            seq, id, band, p_place, 1, leased, owner,
            attempts + (leased and lost > 0), lost + leased, p_until,
            case
                when expires_at <= p_present then 4
                when leased and lost > 0 and attempts + 1 >= p_max_attempts then 3
            end
        from postroom_outbox_queue force index (tenants)
        where tenant_hash <=> p_tenant
            and band between p_first_band and p_last_band
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

-- As scan_parked, of one tenant and one band.
create procedure postroom_outbox_scan_parked_of(
    p_present bigint, p_until bigint, p_left_out json, p_tenant bigint, p_place int,
    p_band smallint, p_time bigint, p_suspects tinyint, p_limit int, out p_found int
)
sql security definer
begin
    set p_found = 0;
    if p_limit > 0 then
        insert into postroom_outbox_taken (
            seq, id, band, slot, parked, wake_at, suspect, leased, old_owner, attempts, lost,
            locked_until, reason
        )
        select
            seq, id, band, p_place, 1, wake_at, p_suspects, 0, '', attempts, lost, p_until,
            case when expires_at <= p_present then 4 end
        from postroom_outbox_parked force index (tenants)
        where tenant_hash <=> p_tenant
            and band = p_band
            and wake_at <= p_time
            and (lost > 0) = p_suspects
            and (
                p_left_out is null
                or not json_contains(p_left_out, json_quote(cast(topic_hash as char)))
            )
        order by wake_at, seq
        limit p_limit
        for update skip locked;
        set p_found = row_count();
    end if;
end;

-- Of too many rows of one tenant keeps the first, in the order of claims, and of suspects no more
-- than allowed.
create procedure postroom_outbox_cut_tenant(p_place int, p_part int, p_suspects int)
sql security definer
begin
    delete from postroom_outbox_candidate;
    insert into postroom_outbox_candidate (
        seq, id, band, slot, parked, wake_at, suspect, leased, old_owner, attempts, lost,
        locked_until, reason
    )
    select
        seq, id, band, slot, parked, wake_at, suspect, leased, old_owner, attempts, lost,
        locked_until, reason
    from postroom_outbox_taken
    where slot = p_place;
    delete from postroom_outbox_taken
    where slot = p_place;
    insert into postroom_outbox_taken (
        seq, id, band, slot, parked, wake_at, suspect, leased, old_owner, attempts, lost,
        locked_until, reason
    )
    select
        seq, id, band, slot, parked, wake_at, suspect, leased, old_owner, attempts, lost,
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
    limit p_part;
end;

-- Takes a tenant's part. Where it has both what came due and what is queued, a surplus stays locked
-- until the end.
create procedure postroom_outbox_take_tenant(
    p_present bigint, p_until bigint, p_max_attempts int, p_left_out json, p_tenant bigint,
    p_place int, p_part int, p_suspects int, out p_found int, out p_found_suspects int
)
sql security definer
begin
    declare this_band smallint;
    declare last_band smallint default 100;
    declare most_wanted bigint default 9223372036854775807;
    declare found int;
    call postroom_outbox_next_band(p_tenant, -1000, this_band);
    while this_band is not null do
        call postroom_outbox_scan_parked_of(
            p_present, p_until, p_left_out, p_tenant, p_place, this_band, p_present, false, p_part,
            found
        );
        set most_wanted = p_present;
        if found = p_part then
            select max(wake_at) into most_wanted
            from postroom_outbox_taken
            where slot = p_place and band = this_band and parked = 1;
        end if;
        call postroom_outbox_scan_parked_of(
            p_present, p_until, p_left_out, p_tenant, p_place, this_band, most_wanted, true,
            p_suspects, found
        );
        call postroom_outbox_next_band(p_tenant, this_band, this_band);
    end while;
    call postroom_outbox_scan_queue_of(
        p_present, p_until, p_max_attempts, p_left_out, p_tenant, p_place, 0, 0, 0, false, p_part,
        found
    );
    set most_wanted = 9223372036854775807;
    if found = p_part then
        select band, seq into last_band, most_wanted
        from postroom_outbox_taken
        where slot = p_place and parked = 0
        order by band desc, seq desc
        limit 1;
    end if;
    -- The last band apart, as in take.
    call postroom_outbox_scan_queue_of(
        p_present, p_until, p_max_attempts, p_left_out, p_tenant, p_place, -100, last_band - 1,
        9223372036854775807, true, p_suspects, found
    );
    call postroom_outbox_scan_queue_of(
        p_present, p_until, p_max_attempts, p_left_out, p_tenant, p_place, last_band, last_band,
        most_wanted, true, p_suspects - found, found
    );
    select count(*), coalesce(sum(suspect), 0) into p_found, p_found_suspects
    from postroom_outbox_taken
    where slot = p_place;
    if p_found > p_part or p_found_suspects > p_suspects then
        call postroom_outbox_cut_tenant(p_place, p_part, p_suspects);
        select count(*), coalesce(sum(suspect), 0) into p_found, p_found_suspects
        from postroom_outbox_taken
        where slot = p_place;
    end if;
end;

-- One round: leases rows to an owner, a part of each tenant whose turn it is.
create procedure postroom_outbox_take_round(
    p_present bigint, p_owner binary(16), p_token binary(16), p_lease bigint, p_batch int,
    p_suspects int, p_max_attempts int, p_after bigint, p_except json, p_wanted int, p_looks int,
    out p_first bigint, out p_last bigint, out p_more tinyint
)
sql security definer
take: begin
    declare until bigint default p_present + p_lease;
    declare left_out json;
    declare suspects int default p_suspects;
    declare tenants int default 0;
    declare this_place int default 0;
    declare this_tenant bigint;
    declare part int;
    declare found int;
    declare found_suspects int;
    call postroom_outbox_tables();
    delete from postroom_outbox_taken;
    set p_first = null, p_last = null, p_more = 0;
    select exists (select 1 from postroom_outbox_control where topic = '') into found;
    if found then
        leave take;
    end if;
    call postroom_outbox_left_out(p_except, left_out);
    call postroom_outbox_find_tenants(
        p_present, p_suspects, left_out, p_after, p_wanted, p_looks, p_last
    );
    select count(*) into tenants from postroom_outbox_tenant_turn;
    while this_place < tenants do
        select tenant into this_tenant
        from postroom_outbox_tenant_turn
        where place = this_place;
        set p_first = coalesce(p_first, this_tenant),
            part = p_batch div tenants + (this_place < p_batch mod tenants);
        call postroom_outbox_take_tenant(
            p_present, until, p_max_attempts, left_out,
            nullif(this_tenant, -9223372036854775808), this_place, part, suspects,
            found, found_suspects
        );
        set suspects = suspects - found_suspects,
            p_more = p_more or found = part,
            this_place = this_place + 1;
    end while;
    call postroom_outbox_lease(p_present, p_owner, p_token, until);
end;

-- A round of the engine: a summary, then the items, the first ones of all tenants before the
-- second.
create procedure postroom_outbox_run_claim_fair(
    p_now bigint, p_owner binary(16), p_token binary(16), p_lease bigint, p_batch int,
    p_suspects int, p_max_attempts int, p_after bigint, p_except json, p_wanted int, p_looks int
)
sql security definer
begin
    declare own tinyint default 0;
    declare first_one bigint;
    declare last_one bigint;
    declare more tinyint;
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
    call postroom_outbox_take_round(
        present, p_owner, p_token, p_lease, p_batch, p_suspects, p_max_attempts, p_after, p_except,
        p_wanted, p_looks, first_one, last_one, more
    );
    if own then
        commit;
    end if;
    select
        present as claimed_at,
        count(*) as taken,
        cast(coalesce(sum(suspect), 0) as signed) as suspects,
        cast(coalesce(sum(reason is not null), 0) as signed) as dead,
        first_one as first_tenant,
        last_one as last_tenant,
        more as is_more,
        not exists (select 1 from postroom_outbox_control where topic = '')
            and (
                exists (select 1 from postroom_outbox_ordered)
                or exists (
                    select 1 from postroom_outbox_parked where band = 1000 and wake_at <= present
                )
            ) as ordered_work
    from postroom_outbox_taken;
    select
        taken.seq, taken.attempts, taken.lost, taken.locked_until, present as claimed_at,
        message.created_at, message.id, message.topic, message.payload, message.content_type,
        message.headers, message.aggregate_type, message.aggregate_id, message.ordering_key,
        message.tenant_id, message.correlation_id, message.causation_id, message.idempotency_key,
        message.occurred_at, message.due_at, message.expires_at, message.priority,
        message.source, message.source_id, message.consumer
    from (
        select
            each_one.*,
            row_number() over (
                partition by slot
                order by band, parked desc, wake_at, seq
            ) as place_in_part
        from postroom_outbox_taken as each_one
    ) as taken
    left join postroom_outbox_message as message force index (primary) on message.seq = taken.seq
    where taken.reason is null
    order by taken.place_in_part, taken.slot;
end;
