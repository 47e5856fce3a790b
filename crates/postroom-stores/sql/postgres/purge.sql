-- Deletes one chunk of settled messages that are old enough.
-- $1 now, $2 age of done and $3 age of dead in microseconds (null keeps them), $4 limit.
-- It begins by deleting the settled row, as replay does: who gets no row does nothing. Live
-- messages have no settled row, so they are out of reach.
with
clock as materialized (
    select
        now - $2::bigint * interval '1 microsecond' as done_before,
        now - $3::bigint * interval '1 microsecond' as dead_before
    from (
        select coalesce($1::timestamptz, clock_timestamp()) as now
    ) as present
),
old_done as materialized (
    select seq
    from postroom.outbox_settled
    where state = 1
        and settled_at <= (select done_before from clock)
    order by settled_at
    limit $4::integer
    for update skip locked
),
-- A discarded dead letter is kept like a done message.
old_discarded as materialized (
    select seq
    from postroom.outbox_settled
    where reason = 6
        and settled_at <= (select done_before from clock)
    order by settled_at
    limit $4::integer - (select count(*) from old_done)
    for update skip locked
),
-- Dead letters are few; where they are kept for ever they are not even looked at.
old_dead as materialized (
    select seq
    from postroom.outbox_settled
    where state = 2
        and reason <> 6
        and settled_at <= (select dead_before from clock)
        and (select dead_before from clock) is not null
    order by settled_at
    limit $4::integer
        - (select count(*) from old_done)
        - (select count(*) from old_discarded)
    for update skip locked
),
gone as (
    delete from postroom.outbox_settled
    where seq = any(array(
        select seq from old_done
        union all select seq from old_discarded
        union all select seq from old_dead
    ))
    returning id, seq, settled_at
),
gone_halt as (
    delete from postroom.outbox_halt
    where seq = any(array(select seq from gone))
),
gone_message as (
    delete from postroom.outbox_message
    where id = any(array(select id from gone))
),
gone_attempt as (
    delete from postroom.outbox_attempt
    where id = any(array(select id from gone))
),
-- A key may outlive its message, and counts from its end.
key_settled as (
    update postroom.outbox_key as key
    set settled_at = gone.settled_at
    from gone
    where key.message_id = any(array(select id from gone))
        and gone.id = key.message_id
)
select
    count(*) as messages,
    count(*) >= $4 as more
from gone
