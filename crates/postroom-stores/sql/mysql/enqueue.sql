-- Publishing from any language, inside the caller's own transaction. A message is a row in several
-- tables, and a procedure is no transaction by itself.

-- Whether the stored message has this content; null when there is none. A locking read: it sees
-- what was committed after the caller's snapshot.
create procedure postroom_outbox_compare(
    in p_id binary(16), in p_content binary(32), out p_same tinyint
)
sql security definer
begin
    declare topic varbinary(1020);
    declare payload longblob;
    declare content_type varbinary(1020);
    declare headers mediumtext character set utf8mb4;
    declare header_text mediumtext character set utf8mb4;
    declare header_parts mediumblob default '';
    declare aggregate_type varbinary(256);
    declare aggregate_id varbinary(512);
    declare ordering_key varbinary(1020);
    declare tenant_id varbinary(256);
    declare correlation_id varbinary(1020);
    declare causation_id varbinary(1020);
    declare idempotency_key binary(16);
    declare priority smallint;
    declare content binary(32);
    declare continue handler for not found begin end;
    set p_same = null;
    select
        known.topic, known.payload, known.content_type,
        convert(known.headers using utf8mb4), known.aggregate_type, known.aggregate_id,
        known.ordering_key, known.tenant_id, known.correlation_id, known.causation_id,
        known.idempotency_key, known.priority
    into
        topic, payload, content_type,
        headers, aggregate_type, aggregate_id,
        ordering_key, tenant_id, correlation_id, causation_id,
        idempotency_key, priority
    from postroom_outbox_message as known
    where known.id = p_id
    lock in share mode;
    if topic is not null then
        if headers is not null then
            call postroom_read_headers(headers, header_text, header_parts);
        end if;
        call postroom_content_hash(
            topic, payload, content_type, header_parts, aggregate_type, aggregate_id,
            ordering_key, tenant_id, correlation_id, causation_id, idempotency_key, priority,
            content
        );
        set p_same = content = p_content;
    end if;
end;

-- Gives a message that was just written its place: among those that wait for their time, in the
-- order of its key, or in the queue.
create procedure postroom_outbox_place(
    in p_seq bigint, in p_id binary(16), in p_now bigint, in p_topic varbinary(1020),
    in p_ordering_key varbinary(1020), in p_tenant_id varbinary(256),
    in p_due_at bigint, in p_expires_at bigint, in p_priority smallint
)
sql security definer
begin
    declare parts longblob default '';
    declare topic_hash bigint;
    declare tenant_hash bigint;
    declare lane bigint;
    call postroom_add_part(parts, p_topic);
    call postroom_hash64(parts, topic_hash);
    set parts = '';
    call postroom_add_part(parts, p_tenant_id);
    if p_tenant_id is not null then
        call postroom_hash64(parts, tenant_hash);
    end if;
    if p_ordering_key is not null then
        call postroom_add_part(parts, p_ordering_key);
        call postroom_hash64(parts, lane);
    end if;
    -- The slot is the last byte of the lane.
    if p_due_at > p_now then
        insert into postroom_outbox_parked (
            seq, band, wake_at, id, slot, key_hash, topic_hash, tenant_hash, priority, expires_at
        )
        values (
            p_seq, if(lane is null, -p_priority, 1000), p_due_at, p_id, lane & 255, lane,
            topic_hash, tenant_hash, p_priority, p_expires_at
        );
    elseif lane is not null then
        insert into postroom_outbox_ordered (
            slot, key_hash, seq, id, topic_hash, tenant_hash, expires_at, priority
        )
        values (
            lane & 255, lane, p_seq, p_id, topic_hash, tenant_hash, p_expires_at, p_priority
        );
    else
        insert into postroom_outbox_queue (
            band, seq, id, topic_hash, tenant_hash, expires_at
        )
        values (-p_priority, p_seq, p_id, topic_hash, tenant_hash, p_expires_at);
    end if;
end;

-- Says which message has this key, and whether the key is new. The upsert waits for a rival and
-- then has the key for itself; INSERT IGNORE would share it, and of two that waited one would die
-- of the read below.
create procedure postroom_outbox_take_key(
    in p_idempotency_key binary(16), in p_tenant_id varbinary(256), in p_now bigint,
    in p_id binary(16), in p_content binary(32), out p_first binary(16), out p_is_new tinyint
)
sql security definer
begin
    declare parts longblob default '';
    declare hash_of_key binary(32);
    declare bytes binary(32);
    declare draw bigint;
    call postroom_add_part(parts, p_tenant_id);
    call postroom_add_part(parts, p_idempotency_key);
    set hash_of_key = unhex(sha2(parts, 256));
    call postroom_draw(bytes);
    call postroom_hash64(bytes, draw);
    insert into postroom_outbox_key (hash, written_by, created_at, message_id, content_hash)
    values (hash_of_key, draw, p_now, p_id, p_content)
    on duplicate key update hash = hash_of_key;
    select taken.message_id, taken.written_by = draw
    into p_first, p_is_new
    from postroom_outbox_key as taken
    where taken.hash = hash_of_key
    for update;
end;

-- Writes a message that was checked; p_stored is its id, or that of the first one with its key.
create procedure postroom_outbox_write(
    in p_id binary(16), in p_now bigint, in p_topic varbinary(1020), in p_payload longblob,
    in p_content_type varbinary(1020), in p_headers mediumblob, in p_header_parts mediumblob,
    in p_aggregate_type varbinary(256), in p_aggregate_id varbinary(512),
    in p_ordering_key varbinary(1020), in p_tenant_id varbinary(256),
    in p_correlation_id varbinary(1020), in p_causation_id varbinary(1020),
    in p_idempotency_key binary(16), in p_occurred_at bigint, in p_due_at bigint,
    in p_expires_at bigint, in p_priority smallint,
    out p_stored binary(16), out p_already_existed tinyint
)
sql security definer
write_it: begin
    declare content binary(32);
    declare is_new tinyint default 1;
    declare is_same tinyint;
    declare refusal varchar(128) character set utf8mb4;
    set p_stored = p_id, p_already_existed = 0;
    if p_idempotency_key is not null then
        call postroom_content_hash(
            p_topic, p_payload, p_content_type, p_header_parts, p_aggregate_type, p_aggregate_id,
            p_ordering_key, p_tenant_id, p_correlation_id, p_causation_id, p_idempotency_key,
            p_priority, content
        );
        call postroom_outbox_take_key(
            p_idempotency_key, p_tenant_id, p_now, p_id, content, p_stored, is_new
        );
        if p_stored <> p_id then
            set p_already_existed = 1;
            leave write_it;
        end if;
    end if;
    if is_new then
        begin
            declare continue handler for 1062 set p_already_existed = 1;
            insert into postroom_outbox_message (
                id, occurred_at, created_at, due_at, expires_at, idempotency_key, priority, topic,
                content_type, aggregate_type, aggregate_id, ordering_key, tenant_id,
                correlation_id, causation_id, headers, payload
            )
            values (
                p_id, coalesce(p_occurred_at, p_now), p_now, p_due_at, p_expires_at,
                p_idempotency_key, p_priority, p_topic,
                p_content_type, p_aggregate_type, p_aggregate_id, p_ordering_key, p_tenant_id,
                p_correlation_id, p_causation_id, p_headers, p_payload
            );
        end;
        if not p_already_existed then
            call postroom_outbox_place(
                last_insert_id(), p_id, p_now, p_topic, p_ordering_key, p_tenant_id,
                p_due_at, p_expires_at, p_priority
            );
            leave write_it;
        end if;
    end if;
    set p_already_existed = 1;
    call postroom_content_hash(
        p_topic, p_payload, p_content_type, p_header_parts, p_aggregate_type, p_aggregate_id,
        p_ordering_key, p_tenant_id, p_correlation_id, p_causation_id, p_idempotency_key,
        p_priority, content
    );
    call postroom_outbox_compare(p_id, content, is_same);
    if is_same is null and is_new then
        signal sqlstate '40001'
            set message_text = 'a rival with the same id came and went; run the transaction again';
    end if;
    if not is_same then
        call postroom_show_uuid(p_id, refusal);
        set refusal = concat(
            'message id ', refusal, ' belongs to a message with other content; use a fresh id'
        );
        signal sqlstate '23000' set mysql_errno = 1062, message_text = refusal;
    end if;
end;

-- Publishes a message; answers with its id, or with the id of the first message with this key.
-- call postroom_outbox_enqueue('order.placed', '{}', json_object('tenant_id', 'acme'))
create procedure postroom_outbox_enqueue(
    in p_topic longtext character set utf8mb4, in p_payload longblob, in p_options json
)
sql security definer
begin
    declare options json;
    declare now_micros bigint;
    declare bytes binary(32);
    declare id binary(16);
    declare content_type longtext character set utf8mb4;
    declare headers mediumtext character set utf8mb4;
    declare header_parts mediumblob default '';
    declare aggregate_type longtext character set utf8mb4;
    declare aggregate_id longtext character set utf8mb4;
    declare ordering_key longtext character set utf8mb4;
    declare tenant_id longtext character set utf8mb4;
    declare correlation_id longtext character set utf8mb4;
    declare causation_id longtext character set utf8mb4;
    declare idempotency_key binary(16);
    declare occurred_at bigint;
    declare due_at bigint;
    declare expires_at bigint;
    declare priority bigint default 0;
    declare max_payload_bytes bigint default 1048576;
    declare first_id binary(16);
    declare id_text char(36) character set utf8mb4;
    declare already_existed tinyint;
    declare refusal longtext character set utf8mb4;
    -- The caller's own inserts set this, and it may ask for it after this call.
    declare last_id bigint unsigned default last_insert_id();

    -- Each statement would commit by itself. Also after a deadlock has taken the transaction.
    begin
        declare exit handler for 1305
            signal sqlstate '25000' set message_text =
                'no transaction is open: begin one, publish in it, then commit';
        savepoint postroom_enqueue;
        release savepoint postroom_enqueue;
    end;

    if p_topic is null then
        call postroom_refuse('topic must not be null');
    end if;
    if p_payload is null then
        call postroom_refuse('payload must not be null');
    end if;
    if p_options is not null then
        call postroom_read_options(p_options, json_object(
            'content_type', 'string', 'headers', 'any', 'aggregate_type', 'string',
            'aggregate_id', 'string', 'ordering_key', 'string', 'tenant_id', 'string',
            'correlation_id', 'string', 'causation_id', 'string', 'idempotency_key', 'string',
            'occurred_at', 'string', 'due_at', 'string', 'expires_at', 'string',
            'priority', 'integer', 'id', 'string', 'max_payload_bytes', 'integer'
        ), options);
        set content_type = json_unquote(json_extract(options, '$.content_type')),
            aggregate_type = json_unquote(json_extract(options, '$.aggregate_type')),
            aggregate_id = json_unquote(json_extract(options, '$.aggregate_id')),
            ordering_key = json_unquote(json_extract(options, '$.ordering_key')),
            tenant_id = json_unquote(json_extract(options, '$.tenant_id')),
            correlation_id = json_unquote(json_extract(options, '$.correlation_id')),
            causation_id = json_unquote(json_extract(options, '$.causation_id')),
            priority = coalesce(cast(json_extract(options, '$.priority') as signed), 0),
            max_payload_bytes = coalesce(
                cast(json_extract(options, '$.max_payload_bytes') as signed), 1048576
            );
        -- By length: to a collation, blanks may be nothing.
        if octet_length(correlation_id) = 0 then
            set correlation_id = null;
        end if;
        if octet_length(causation_id) = 0 then
            set causation_id = null;
        end if;
        call postroom_check_chars('content_type', content_type, 255, true);
        call postroom_check_chars('aggregate_type', aggregate_type, 64, false);
        call postroom_check_chars('aggregate_id', aggregate_id, 128, false);
        call postroom_check_chars('ordering_key', ordering_key, 255, false);
        call postroom_check_chars('tenant_id', tenant_id, 64, false);
        call postroom_check_chars('correlation_id', correlation_id, 255, false);
        call postroom_check_chars('causation_id', causation_id, 255, false);
        call postroom_check_bounds(
            'priority', '-100 to 100', priority, priority between -100 and 100
        );
        call postroom_read_uuid(
            'idempotency_key', json_unquote(json_extract(options, '$.idempotency_key')),
            idempotency_key
        );
        call postroom_read_uuid('id', json_unquote(json_extract(options, '$.id')), id);
        call postroom_read_time(
            'occurred_at', json_unquote(json_extract(options, '$.occurred_at')), occurred_at
        );
        call postroom_read_time(
            'due_at', json_unquote(json_extract(options, '$.due_at')), due_at
        );
        call postroom_read_time(
            'expires_at', json_unquote(json_extract(options, '$.expires_at')), expires_at
        );
        -- As they were given: a null among them must not vanish.
        if json_type(json_extract(options, '$.headers')) is not null then
            call postroom_read_headers(
                json_extract(p_options, '$.headers'), headers, header_parts
            );
        end if;
        if cast(content_type as binary) = 'application/json' then
            set content_type = null;
        end if;
    end if;
    call postroom_check_chars('topic', p_topic, 255, true);
    if octet_length(p_payload) > max_payload_bytes then
        set refusal = concat(
            'payload must be at most ', max_payload_bytes, ' bytes (max_payload_bytes), got ',
            octet_length(p_payload), ' bytes'
        );
        call postroom_refuse(refusal);
    end if;

    set now_micros = timestampdiff(
        microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)
    );
    if id is null then
        -- Time-ordered: milliseconds in front of random digits, version 7.
        call postroom_draw(bytes);
        set id = unhex(concat(
            lpad(hex(now_micros div 1000), 12, '0'), '7', substr(hex(bytes), 1, 3),
            substr('89AB', 1 + ord(right(bytes, 1)) % 4, 1), substr(hex(bytes), 4, 15)
        ));
    end if;
    savepoint postroom_enqueue;
    begin
        declare exit handler for sqlexception
        begin
            -- A key without its message would swallow the next message with that key.
            begin
                -- A deadlock has taken the transaction, and the savepoint with it.
                declare continue handler for 1305 begin end;
                rollback to savepoint postroom_enqueue;
            end;
            do last_insert_id(last_id);
            resignal;
        end;
        call postroom_outbox_write(
            id, now_micros, p_topic, p_payload, content_type, headers, header_parts,
            aggregate_type, aggregate_id, ordering_key, tenant_id, correlation_id, causation_id,
            idempotency_key, occurred_at, due_at, expires_at, priority,
            first_id, already_existed
        );
    end;
    release savepoint postroom_enqueue;
    do last_insert_id(last_id);
    call postroom_show_uuid(first_id, id_text);
    select id_text as id, already_existed as already_existed;
end;
