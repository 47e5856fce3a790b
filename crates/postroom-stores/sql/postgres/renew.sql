-- Extends leases that have not run out. An expired one is never renewed: somebody may be taking it.
-- $1 now, $2 owner, $3 seqs, $4 tokens, $5 lease in microseconds. Answers with what was applied.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
)
update postroom.outbox_queue
set locked_until = (select now from clock) + $5::bigint * interval '1 microsecond'
where seq = any($3::bigint[])
    and owner = $2::uuid
    and locked_until > (select now from clock)
    and ((seq, token) in (select * from unnest($3::bigint[], $4::uuid[]))) is true
returning seq, token
