-- Publishing from any language: people insert here, and the next claim takes the rows in. See
-- docs/reference/sql.md. The library of whoever inserts runs the checks and the trigger, so they
-- are in the SQL of old versions. The name of a check is the text of its error.
create table if not exists postroom_outbox_incoming (
  -- The message's place in the queue; the trigger sets it.
  seq               integer primary key,
  topic             text    not null,
  payload           blob    not null,
  content_type      text,
  headers           text,
  aggregate_type    text,
  aggregate_id      text,
  ordering_key      text,
  tenant_id         text,
  correlation_id    text,
  causation_id      text,
  idempotency_key   blob,
  -- Seconds, milliseconds and nanoseconds are out of the bounds of these times, which are
  -- 1973 and 9999.
  occurred_at       integer,
  due_at            integer,
  expires_at        integer,
  priority          integer not null default 0,
  id                blob,
  max_payload_bytes integer not null default 1048576,
  inserted_at       integer not null default (
    cast(strftime('%s', 'now') as integer) * 1000000
      + cast(substr(strftime('%f', 'now'), 4) as integer) * 1000
  ),
  constraint "topic must be text of 1 to 255 characters without control characters" check (
    typeof(topic) = 'text' and length(topic) between 1 and 255
      and instr(topic, char(0)) = 0
      and topic not glob
        '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
  ),
  constraint "payload must be text or a blob" check (typeof(payload) in ('text', 'blob')),
  constraint "payload must be at most max_payload_bytes, which is 1048576 unless given" check (
    length(cast(payload as blob)) <= max_payload_bytes
  ),
  constraint "content_type must be text of 1 to 255 characters without control characters" check (
    content_type is null
    or typeof(content_type) = 'text' and length(content_type) between 1 and 255
      and instr(content_type, char(0)) = 0
      and content_type not glob
        '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*'
  ),
  constraint "headers must be a JSON object of strings" check (
    headers is null or typeof(headers) = 'text'
  ),
  constraint "aggregate_type must be text of 1 to 64 characters without NUL" check (
    aggregate_type is null
    or typeof(aggregate_type) = 'text' and length(aggregate_type) between 1 and 64
      and instr(aggregate_type, char(0)) = 0
  ),
  constraint "aggregate_id must be text of 1 to 128 characters without NUL" check (
    aggregate_id is null
    or typeof(aggregate_id) = 'text' and length(aggregate_id) between 1 and 128
      and instr(aggregate_id, char(0)) = 0
  ),
  constraint "ordering_key must be text of 1 to 255 characters without NUL" check (
    ordering_key is null
    or typeof(ordering_key) = 'text' and length(ordering_key) between 1 and 255
      and instr(ordering_key, char(0)) = 0
  ),
  constraint "tenant_id must be text of 1 to 64 characters without NUL" check (
    tenant_id is null
    or typeof(tenant_id) = 'text' and length(tenant_id) between 1 and 64
      and instr(tenant_id, char(0)) = 0
  ),
  constraint "correlation_id must be text of at most 255 characters without NUL" check (
    correlation_id is null
    or typeof(correlation_id) = 'text' and length(correlation_id) <= 255
      and instr(correlation_id, char(0)) = 0
  ),
  constraint "causation_id must be text of at most 255 characters without NUL" check (
    causation_id is null
    or typeof(causation_id) = 'text' and length(causation_id) <= 255
      and instr(causation_id, char(0)) = 0
  ),
  constraint "idempotency_key must be a UUID as text or as 16 bytes" check (
    idempotency_key is null
    or typeof(idempotency_key) = 'blob' and length(idempotency_key) = 16
    or typeof(idempotency_key) = 'text' and idempotency_key not glob '*[^0-9a-fA-F-]*' and (
      length(idempotency_key) = 32 and instr(idempotency_key, '-') = 0
      or length(replace(idempotency_key, '-', '')) = 32
        and idempotency_key glob '????????-????-????-????-????????????'
    )
  ),
  constraint "occurred_at must be whole microseconds since 1970" check (
    occurred_at is null
    or typeof(occurred_at) = 'integer'
      and occurred_at between 100000000000000 and 253402300799000000
  ),
  constraint "due_at must be whole microseconds since 1970" check (
    due_at is null
    or typeof(due_at) = 'integer'
      and due_at between 100000000000000 and 253402300799000000
  ),
  constraint "expires_at must be whole microseconds since 1970" check (
    expires_at is null
    or typeof(expires_at) = 'integer'
      and expires_at between 100000000000000 and 253402300799000000
  ),
  constraint "priority must be a whole number from -100 to 100" check (
    typeof(priority) = 'integer' and priority between -100 and 100
  ),
  constraint "id must be a UUID as text or as 16 bytes" check (
    id is null
    or typeof(id) = 'blob' and length(id) = 16
    or typeof(id) = 'text' and id not glob '*[^0-9a-fA-F-]*' and (
      length(id) = 32 and instr(id, '-') = 0
      or length(replace(id, '-', '')) = 32
        and id glob '????????-????-????-????-????????????'
    )
  ),
  constraint "max_payload_bytes must be a whole number" check (
    typeof(max_payload_bytes) = 'integer'
  )
);

-- One sequence gives the places of messages and of rows here, so that they are in the order of
-- commits whoever writes. It is not there before the first message.
insert into sqlite_sequence (name, seq)
select 'postroom_outbox_message', 0
where not exists (select 1 from sqlite_sequence where name = 'postroom_outbox_message');

create trigger if not exists postroom_outbox_incoming_place
after insert on postroom_outbox_incoming
begin
  -- Not checks: they have no subqueries, and one with a function that an old or distrustful library
  -- refuses would keep it from all tables.
  select raise(abort, 'headers must be a JSON object of strings')
  where new.headers is not null
    and case when json_valid(new.headers) then json_type(new.headers) <> 'object' else 1 end;
  select raise(abort, 'headers must be a JSON object of strings')
  where new.headers is not null
    and exists (select 1 from json_each(new.headers) where type <> 'text');
  select raise(abort, 'header name must be 1 to 128 characters of visible ASCII')
  where new.headers is not null
    and exists (
      select 1 from json_each(new.headers)
      where length(key) not between 1 and 128 or key glob '*[^!-~]*'
    );
  select raise(abort, 'value of a header must be free of CR, LF and NUL')
  where new.headers is not null
    and exists (
      select 1 from json_each(new.headers)
      where instr(value, char(13)) > 0 or instr(value, char(10)) > 0 or instr(value, char(0)) > 0
    );
  select raise(abort, 'headers must be at most 16384 bytes in all')
  where new.headers is not null
    and 16384 < (
      select sum(length(cast(key as blob)) + length(cast(value as blob)))
      from json_each(new.headers)
    );
  update sqlite_sequence set seq = seq + 1 where name = 'postroom_outbox_message';
  update postroom_outbox_incoming
  set seq = (select seq from sqlite_sequence where name = 'postroom_outbox_message')
  where seq = new.seq;
end;
