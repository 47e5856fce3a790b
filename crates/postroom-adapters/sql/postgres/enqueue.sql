-- Publishes in the caller's transaction. The parameters are text, bytes and whole numbers only:
-- every driver binds these without features of its own.
select
  postroom.outbox_enqueue(
    topic => $1::text,
    payload => $2::bytea,
    content_type => $3::text,
    headers => $4::text::jsonb,
    aggregate_type => $5::text,
    aggregate_id => $6::text,
    ordering_key => $7::text,
    tenant_id => $8::text,
    correlation_id => $9::text,
    causation_id => $10::text,
    idempotency_key => $11::text::uuid,
    occurred_at => timestamptz 'epoch' + $12::bigint * interval '1 microsecond',
    due_at => coalesce(
      timestamptz 'epoch' + $13::bigint * interval '1 microsecond',
      clock_timestamp() + $14::bigint * interval '1 microsecond'
    ),
    expires_at => coalesce(
      timestamptz 'epoch' + $15::bigint * interval '1 microsecond',
      clock_timestamp() + $16::bigint * interval '1 microsecond'
    ),
    priority => $17::bigint::integer,
    id => $18::text::uuid,
    max_payload_bytes => $19::bigint::integer
  )::text as id
