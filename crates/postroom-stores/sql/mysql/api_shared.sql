-- What the procedures for other languages share, for both boxes: reading and checking arguments,
-- hashes. Limits and hashes are those of the Rust crate; a test compares them. There are no
-- functions here, so answers are OUT parameters.

-- A broken limit. MySQL takes no longer text than this.
create procedure postroom_refuse(in p_text longtext character set utf8mb4)
sql security definer
begin
    declare shown varchar(128) character set utf8mb4 default left(p_text, 128);
    signal sqlstate '22023' set message_text = shown;
end;

-- An argument must lie within its bounds.
create procedure postroom_check_bounds(
    in p_field varchar(64) character set utf8mb4,
    in p_allowed varchar(64) character set utf8mb4,
    in p_got longtext character set utf8mb4,
    in p_fits tinyint
)
sql security definer
begin
    declare refusal longtext character set utf8mb4;
    if p_fits is null or not p_fits then
        set refusal = concat(p_field, ' must be ', p_allowed, ', got ', coalesce(p_got, 'null'));
        call postroom_refuse(refusal);
    end if;
end;

-- Options by name. p_known says which there are and of which JSON type. A null is as if it was not
-- there, since many languages can not leave a field out.
create procedure postroom_read_options(
    in p_options json, in p_known json, out p_read json
)
sql security definer
begin
    declare wrong longtext character set utf8mb4;
    declare wanted varchar(16) character set utf8mb4;
    declare refusal longtext character set utf8mb4;
    declare continue handler for not found begin end;
    set p_read = null;
    if p_options is not null then
        -- In two steps: json_type fails where the text is not JSON.
        if not json_valid(p_options) then
            call postroom_refuse('options must be a JSON object');
        end if;
        if json_type(p_options) <> 'OBJECT' then
            call postroom_refuse('options must be a JSON object');
        end if;
        -- No legal ones are as long. Reading takes time in the square of this.
        call postroom_check_bounds(
            'options', 'at most 1048576 bytes', concat(octet_length(p_options), ' bytes'),
            octet_length(p_options) <= 1048576
        );
        select faulty.name, faulty.wanted
        into wrong, wanted
        from (
            select
                given.name,
                json_unquote(json_extract(p_known, concat('$.', json_quote(given.name)))) as wanted,
                json_type(json_extract(p_options, concat('$.', json_quote(given.name)))) as kind
            from json_table(json_keys(p_options), '$[*]' columns (
                name longtext character set utf8mb4 path '$'
            )) as given
        ) as faulty
        where case
            when faulty.wanted is null then 1
            when faulty.kind = 'NULL' then 0
            when faulty.wanted = 'string' then faulty.kind <> 'STRING'
            when faulty.wanted = 'integer' then faulty.kind not in ('INTEGER', 'UNSIGNED INTEGER')
            when faulty.wanted = 'number' then faulty.kind not in (
                'INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL'
            )
            when faulty.wanted = 'flag' then faulty.kind not in ('BOOLEAN', 'INTEGER')
            else 0
        end
        limit 1;
        if wrong is not null then
            set refusal = case
                when wanted is null then concat('unknown option ', json_quote(left(wrong, 64)))
                when wanted = 'flag' then concat(wrong, ' must be a JSON boolean')
                else concat(wrong, ' must be a JSON ', wanted)
            end;
            call postroom_refuse(refusal);
        end if;
        -- This leaves nulls out.
        set p_read = json_merge_patch('{}', p_options);
    end if;
end;

-- With or without dashes; null stays null.
create procedure postroom_read_uuid(
    in p_field varchar(64) character set utf8mb4,
    in p_text longtext character set utf8mb4,
    out p_id binary(16)
)
sql security definer
begin
    declare digits longtext character set utf8mb4 default replace(p_text, '-', '');
    declare refusal longtext character set utf8mb4;
    set p_id = null;
    if p_text is not null then
        if char_length(digits) <> 32 or digits regexp '[^0-9A-Fa-f]' then
            set refusal = concat(p_field, ' must be a UUID, got ', left(p_text, 64));
            call postroom_refuse(refusal);
        end if;
        set p_id = unhex(digits);
    end if;
end;

-- ISO 8601 to microseconds since 1970; UTC unless it has an offset. Null stays null.
create procedure postroom_read_time(
    in p_field varchar(64) character set utf8mb4,
    in p_text longtext character set utf8mb4,
    out p_micros bigint
)
sql security definer
begin
    declare chars longtext character set utf8mb4 default upper(p_text);
    declare rest longtext character set utf8mb4 default substr(chars, 20);
    declare fraction varchar(16) character set utf8mb4;
    declare zone varchar(8) character set utf8mb4;
    declare zone_minutes int default 0;
    declare refusal longtext character set utf8mb4;
    -- The 30th of February.
    declare continue handler for sqlstate '22007' begin end;
    set p_micros = null;
    if p_text is not null then
        if chars regexp concat(
                '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[T ][0-9]{2}:[0-9]{2}:[0-9]{2}',
                '([.][0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?$'
            )
            -- Because $ also matches before the end of a last line.
            and not chars regexp '[^-0-9TZ:.+ ]'
        then
            -- Where nothing matches one server answers with null and the other with nothing.
            set fraction = coalesce(regexp_substr(rest, '^[.][0-9]+'), ''),
                zone = coalesce(regexp_substr(rest, '[+-][0-9]{2}:?[0-9]{2}$'), '');
            set fraction = rpad(substr(fraction, 2, 6), 6, '0'),
                zone = replace(zone, ':', '');
            if char_length(zone) > 0 then
                set zone_minutes = 60 * cast(substr(zone, 2, 2) as signed)
                    + cast(substr(zone, 4, 2) as signed);
                if left(zone, 1) = '-' then
                    set zone_minutes = -zone_minutes;
                end if;
            end if;
            set p_micros = timestampdiff(
                    microsecond,
                    timestamp'1970-01-01 00:00:00',
                    cast(replace(left(chars, 19), 'T', ' ') as datetime)
                )
                + cast(fraction as signed)
                - 60000000 * zone_minutes;
        end if;
        if p_micros is null then
            set refusal = concat(
                p_field, ' must be a time like 2026-11-16T10:00:00Z, got ', left(p_text, 48)
            );
            call postroom_refuse(refusal);
        end if;
    end if;
end;

-- A short text must have at most so many characters, no NUL, and no control characters where it
-- ends up in a protocol line.
create procedure postroom_check_chars(
    in p_field varchar(64) character set utf8mb4,
    in p_chars longtext character set utf8mb4,
    in p_max_chars int,
    in p_protocol tinyint
)
sql security definer
begin
    -- The characters themselves: escapes differ between the two servers' expressions.
    declare control varchar(16) character set utf8mb4 default concat(
        '[', char(1 using utf8mb4), '-', char(31 using utf8mb4),
        char(127 using utf8mb4), '-', convert(unhex('C29F') using utf8mb4), ']'
    );
    declare has_nul tinyint default locate(unhex('00'), cast(p_chars as binary)) > 0;
    declare refusal longtext character set utf8mb4;
    if p_chars is not null then
        if char_length(p_chars) not between 1 and p_max_chars then
            set refusal = concat(
                p_field, ' must be 1 to ', p_max_chars, ' characters, got ', char_length(p_chars),
                ' characters'
            );
        elseif p_protocol and (has_nul or p_chars regexp control) then
            set refusal = concat(p_field, ' must be free of control characters');
        elseif has_nul then
            set refusal = concat(p_field, ' must be free of NUL characters');
        end if;
        if refusal is not null then
            call postroom_refuse(refusal);
        end if;
    end if;
end;

-- Eight bytes of length, then the bytes.
create procedure postroom_add_part(inout p_bytes longblob, in p_part longblob)
sql security definer
begin
    set p_bytes = concat(
        p_bytes, unhex(lpad(hex(octet_length(coalesce(p_part, ''))), 16, '0')), coalesce(p_part, '')
    );
end;

-- The first eight bytes of SHA-256.
create procedure postroom_hash64(in p_bytes longblob, out p_hash bigint)
sql security definer
begin
    set p_hash = cast(conv(left(sha2(p_bytes, 256), 16), 16, -10) as signed);
end;

-- Headers in the order of their names: as the text that is stored, and as the parts that are
-- hashed, without the trace context. Written anew, so that a name that is given twice is stored
-- with the value that was checked.
create procedure postroom_read_headers(
    in p_headers json, out p_text mediumtext character set utf8mb4, out p_parts mediumblob
)
sql security definer
begin
    declare at_end tinyint default 0;
    declare name varchar(129) character set utf8mb4;
    declare given_value json;
    declare chars longtext character set utf8mb4;
    declare bytes bigint default 0;
    declare refusal longtext character set utf8mb4;
    -- Names only, and short ones, so that the cursor stays in memory. A longer one is null.
    declare header cursor for
        select given.name
        from json_table(json_keys(p_headers), '$[*]' columns (
            name varchar(129) character set utf8mb4 path '$'
        )) as given
        order by cast(given.name as binary(516));
    declare continue handler for not found set at_end = 1;
    set p_text = null, p_parts = '';
    if json_type(p_headers) <> 'OBJECT' then
        call postroom_refuse('headers must be a JSON object of strings');
    end if;
    -- No legal headers are as long as this, however they are escaped.
    if octet_length(p_headers) > 262144 then
        set refusal = concat(
            'headers must be at most 16384 bytes in all, got ', octet_length(p_headers), ' bytes'
        );
        call postroom_refuse(refusal);
    end if;
    if json_length(p_headers) > 0 then
        open header;
        headers: loop
            set at_end = 0;
            fetch header into name;
            if at_end then
                leave headers;
            end if;
            -- What is not ASCII has more bytes than characters.
            if name is null
                or char_length(name) not between 1 and 128
                or octet_length(name) > char_length(name)
                or name regexp '[^!-~]'
            then
                set refusal = concat(
                    'header name must be 1 to 128 characters of visible ASCII, got ',
                    coalesce(left(name, 64), 'a longer one')
                );
                call postroom_refuse(refusal);
            end if;
            set given_value = json_extract(p_headers, concat('$.', json_quote(name)));
            if json_type(given_value) <> 'STRING' then
                call postroom_refuse('headers must be a JSON object of strings');
            end if;
            set chars = json_unquote(given_value);
            if locate(unhex('00'), cast(chars as binary)) > 0
                or locate(unhex('0A'), cast(chars as binary)) > 0
                or locate(unhex('0D'), cast(chars as binary)) > 0
            then
                set refusal = concat(
                    'value of header ', left(name, 64), ' must be free of CR, LF and NUL'
                );
                call postroom_refuse(refusal);
            end if;
            set bytes = bytes + octet_length(name) + octet_length(chars);
            if bytes <= 16384 then
                if cast(name as binary) not in ('traceparent', 'tracestate') then
                    call postroom_add_part(p_parts, name);
                    call postroom_add_part(p_parts, chars);
                end if;
                set p_text = concat(
                    coalesce(concat(p_text, ','), '{'), json_quote(name), ':', json_quote(chars)
                );
            end if;
        end loop;
        close header;
        if bytes > 16384 then
            set refusal = concat(
                'headers must be at most 16384 bytes in all, got ', bytes, ' bytes'
            );
            call postroom_refuse(refusal);
        end if;
        set p_text = concat(p_text, '}');
    end if;
end;

-- What the producer said; ids, times and trace context are left out.
create procedure postroom_content_hash(
    in p_topic varbinary(1020), in p_payload longblob, in p_content_type varbinary(1020),
    in p_header_parts mediumblob,
    in p_aggregate_type varbinary(256), in p_aggregate_id varbinary(512),
    in p_ordering_key varbinary(1020), in p_tenant_id varbinary(256),
    in p_correlation_id varbinary(1020), in p_causation_id varbinary(1020),
    in p_idempotency_key binary(16), in p_priority smallint,
    out p_hash binary(32)
)
sql security definer
begin
    declare before_payload longblob default '';
    declare after_payload longblob default '';
    call postroom_add_part(before_payload, p_topic);
    call postroom_add_part(after_payload, coalesce(p_content_type, 'application/json'));
    call postroom_add_part(after_payload, p_aggregate_type);
    call postroom_add_part(after_payload, p_aggregate_id);
    call postroom_add_part(after_payload, p_ordering_key);
    call postroom_add_part(after_payload, p_tenant_id);
    call postroom_add_part(after_payload, p_correlation_id);
    call postroom_add_part(after_payload, p_causation_id);
    call postroom_add_part(after_payload, coalesce(p_idempotency_key, unhex(repeat('00', 16))));
    call postroom_add_part(after_payload, unhex(lpad(hex(p_priority & 65535), 4, '0')));
    -- The payload may be large and is copied once only.
    set p_hash = unhex(sha2(
        concat(
            before_payload,
            unhex(lpad(hex(octet_length(p_payload)), 16, '0')), p_payload,
            after_payload, p_header_parts
        ),
        256
    ));
end;

-- Bytes that nobody had before. RANDOM_BYTES is not on every server; these need not be secret.
create procedure postroom_draw(out p_bytes binary(32))
sql security definer
begin
    set p_bytes = unhex(sha2(concat(uuid(), ' ', rand(), ' ', rand(), ' ', connection_id()), 256));
end;

-- As everybody writes it.
create procedure postroom_show_uuid(in p_id binary(16), out p_text char(36) character set utf8mb4)
sql security definer
begin
    set p_text = insert(insert(insert(insert(
        lower(hex(p_id)), 9, 0, '-'), 14, 0, '-'), 19, 0, '-'), 24, 0, '-');
end;
