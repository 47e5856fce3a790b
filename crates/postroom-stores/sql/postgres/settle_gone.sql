-- Settles leased items as done where no history is kept: the common case, without what the other
-- outcomes need. $1 now, $2 owner, $3 seqs, $4 tokens. Answers with what was applied, in one
-- row: to send and read one for each item is a good part of a settle.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
-- See settle_done.sql.
gone as (
    delete from postroom.outbox_queue
    where seq = any($3::bigint[])
        and owner = $2::uuid
        and ((seq, token) in (select * from unnest($3::bigint[], $4::uuid[]))) is true
    returning seq, token, id
),
forgotten as (
    delete from postroom.outbox_message
    where id = any(array(select id from gone))
    returning id, idempotency_key is not null or source is not null as has_key
),
-- Seldom is there any, and to look for each one of a group would be a good part of this.
forgotten_attempt as (
    delete from postroom.outbox_attempt
    where exists (select from postroom.outbox_attempt)
        and id = any(array(select id from gone))
),
-- The retention of a key starts now, and its message will not be there to tell.
key_settled as (
    update postroom.outbox_key
    set settled_at = (select now from clock)
    where message_id = any(array(select id from forgotten where has_key))
),
-- Joins are counted where rows of settled are written; these leave none.
counted as materialized (
    select postroom.outbox_count_done(array_agg(id), (select now from clock)) as is_done
    from gone
)
select array_agg(seq) as seqs, array_agg(token) as tokens
from gone
where (select is_done from counted)
