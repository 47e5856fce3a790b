-- Takes back what one append wrote in this transaction, so that a refused list leaves nothing.
-- $1 ids and $2 seqs that were written, $3 key rows that were won.
with
undone_message as (
    delete from postroom.outbox_message
    where id = any($1::uuid[])
),
undone_queue as (
    delete from postroom.outbox_queue
    where seq = any($2::bigint[])
),
undone_parked as (
    delete from postroom.outbox_parked
    where seq = any($2::bigint[])
)
delete from postroom.outbox_key
where hash = any($3::bytea[])
