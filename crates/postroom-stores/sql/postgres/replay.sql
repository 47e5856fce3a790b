-- Makes dead messages ready again. $1 now, $2 places in the queue; then one array per hash, an
-- element per place: $3 slots, $4 keys, $5 tenants, $6 topics. Answers for what was dead.
-- It begins by deleting the settled row, as purge does: who gets no row does nothing.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
-- In the order of places, so that two replays of the same messages do not deadlock. Dead is what
-- has a reason: asked for its state, an index of all dead letters would do.
dead as materialized (
    select seq
    from postroom.outbox_settled
    where seq = any($2::bigint[])
        and reason is not null
    order by seq
    for update
),
gone as (
    delete from postroom.outbox_settled
    where seq = any(array(select seq from dead))
    returning seq, id
),
unhalted as (
    delete from postroom.outbox_halt
    where seq = any(array(select seq from dead))
),
-- Counters begin anew, and an expiry is over: perhaps it died of that. A due time is kept.
place as materialized (
    select
        gone.seq, gone.id, given.slot, given.key_hash, given.tenant_hash, given.topic_hash,
        message.priority, message.due_at
    from gone
    join unnest($2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[])
        as given (seq, slot, key_hash, tenant_hash, topic_hash)
        on given.seq = gone.seq
    cross join lateral (
        select priority, due_at
        from postroom.outbox_message
        where id = gone.id
        limit 1
    ) as message
),
queued as (
    insert into postroom.outbox_queue (
        seq, topic_hash, key_hash, tenant_hash, id, attempts, lost, slot, priority
    )
    select seq, topic_hash, key_hash, tenant_hash, id, 0, 0, slot, priority
    from place
    where due_at is null
        or due_at <= (select now from clock)
),
parked as (
    insert into postroom.outbox_parked (
        seq, topic_hash, key_hash, tenant_hash, wake_at, id, attempts, lost, slot, priority
    )
    select seq, topic_hash, key_hash, tenant_hash, due_at, id, 0, 0, slot, priority
    from place
    where due_at > (select now from clock)
)
select id
from gone
