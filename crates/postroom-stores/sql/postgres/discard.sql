-- Makes messages that nobody holds dead as discarded. $1 now, $2 ids. Answers for those.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
known as materialized (
    select seq
    from postroom.outbox_message
    where id = any($2::uuid[])
),
-- In the order in which claims lock the rows of keys, so that none of the two waits for ever; not
-- by the index that has this order, which would be read from end to end.
free as materialized (
    select seq
    from postroom.outbox_queue
    where seq = any(array(select seq from known))
        and token is null
    order by coalesce(slot, 0), key_hash, seq
    for update
),
unqueued as (
    delete from postroom.outbox_queue
    where seq = any(array(select seq from free))
    returning seq, id, attempts, lost
),
unparked as (
    delete from postroom.outbox_parked
    where seq = any(array(select seq from known))
    returning seq, id, attempts, lost
),
buried as (
    insert into postroom.outbox_settled (seq, settled_at, id, attempts, lost, state, reason)
    select seq, (select now from clock), id, attempts, lost, 2, 6
    from (
        select * from unqueued
        union all
        select * from unparked
    ) as live
),
-- What was dead before, and so has a reason, is kept from now on as long as any discarded message.
dead as materialized (
    select seq, id
    from postroom.outbox_settled
    where seq = any(array(select seq from known))
        and reason is not null
    order by seq
    for update
),
redone as (
    update postroom.outbox_settled
    set reason = 6,
        settled_at = (select now from clock)
    where seq = any(array(select seq from dead))
        and reason <> 6
),
unhalted as (
    delete from postroom.outbox_halt
    where seq = any(array(select seq from dead))
)
select id from unqueued
union all
select id from unparked
union all
select id from dead
