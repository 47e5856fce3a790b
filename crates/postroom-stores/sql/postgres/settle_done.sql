-- Settles leased items as done, kept: the common case, without what the other outcomes need.
-- $1 now, $2 owner, $3 seqs, $4 tokens. Answers with what was applied, in one
-- row: to send and read one for each item is a good part of a settle.
with
-- The index is read in the order of the array's values, so that two settles do not deadlock.
-- "is true" keeps the fence a hashed lookup: as a join its plan would hang on a guessed row count.
gone as (
    delete from postroom.outbox_queue
    where seq = any($3::bigint[])
        and owner = $2::uuid
        and ((seq, token) in (select * from unnest($3::bigint[], $4::uuid[]))) is true
    returning seq, token, id, attempts, lost
),
settled as (
    insert into postroom.outbox_settled (
        seq, settled_at, id, settled_by, attempts, lost, state
    )
    select seq, coalesce($1::timestamptz, clock_timestamp()), id, $2::uuid, attempts, lost, 1
    from gone
)
select array_agg(seq) as seqs, array_agg(token) as tokens
from gone
