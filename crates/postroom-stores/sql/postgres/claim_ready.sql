-- Leases ready rows in the order of the queue: the common case, without what the others need.
-- $1 now, $2 owner, $3 fresh token, $4 lease in microseconds, $5 batch, $6 place in the queue to
-- start from, $7 topics to leave out, paused ones included, $8 what the caller believes to be
-- paused: topics, null for the whole queue.
--
-- Where priorities or rows that waited for their time have a say, or other topics are paused than
-- the caller believes, it takes nothing and is_plain is false: that is for claim.sql. So are rows
-- that lost a lease or have expired, and the next look at everything will find them.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
-- By the conditions of the table's index.
control as materialized (
    select array(
        select topic_hash
        from postroom.outbox_control
        where coalesce(topic, '') >= ''
        order by coalesce(topic, '')
    ) as paused
),
state as materialized (
    select
        (select paused from control) = $8::bigint[]
            and array_position($8::bigint[], null) is null
            and not exists (
                select from postroom.outbox_queue_plain where priority <> 0 and -priority < 0
            )
            and not exists (
                select from postroom.outbox_queue_plain where priority <> 0 and -priority > 0
            )
            and not exists (
                select
                from postroom.outbox_parked
                where slot is null and priority > 0 and wake_at <= (select now from clock)
            )
            and not exists (
                select
                from postroom.outbox_parked
                where slot is null and priority = 0 and wake_at <= (select now from clock)
            )
            and not exists (
                select
                from postroom.outbox_parked
                where slot is null and priority < 0 and wake_at <= (select now from clock)
            ) as is_plain
),
-- By primary key and array: with a join the plan would hang on a guessed row count.
leased as (
    update postroom.outbox_queue_plain
    set token = $3::uuid,
        owner = $2::uuid,
        locked_until = (select now from clock) + $4::bigint * interval '1 microsecond'
    where seq = any(array(
        select seq
        from postroom.outbox_queue_plain
        where (select is_plain from state)
            and priority = 0
            and seq >= $6::bigint
            and token is null
            and lost = 0
            and (expires_at is null or expires_at > (select now from clock))
            and topic_hash <> all($7::bigint[])
        order by seq
        limit $5::integer
        for update skip locked
    ))
    returning seq, id, attempts, lost
)
-- The first row is about all of them, the others are one each.
select
    (select is_plain from state) as is_plain,
    (select count(*) from leased) as taken,
    0::bigint as suspects,
    0::bigint as dead,
    (select max(seq) from leased) as passed,
    exists (select from postroom.outbox_queue_ordered)
        or exists (
            select
            from postroom.outbox_parked
            where slot is not null and wake_at <= (select now from clock)
        ) as ordered_work,
    (select now from clock) as claimed_at,
    (select now from clock) + $4::bigint * interval '1 microsecond' as locked_until,
    null as seq,
    null as attempts,
    null as lost,
    null as created_at,
    null as id,
    null as topic,
    null as payload,
    null as content_type,
    null as headers,
    null as aggregate_type,
    null as aggregate_id,
    null as ordering_key,
    null as tenant_id,
    null as correlation_id,
    null as causation_id,
    null as idempotency_key,
    null as occurred_at,
    null as due_at,
    null as expires_at,
    null as priority,
    null as source,
    null as source_id,
    null as consumer
union all
select
    null,
    null,
    null,
    null,
    null,
    null,
    null,
    null,
    item.seq,
    item.attempts,
    item.lost,
    message.created_at,
    message.id,
    message.topic,
    message.payload,
    message.content_type,
    message.headers::text,
    message.aggregate_type,
    message.aggregate_id,
    message.ordering_key,
    message.tenant_id,
    message.correlation_id,
    message.causation_id,
    message.idempotency_key,
    message.occurred_at,
    message.due_at,
    message.expires_at,
    message.priority,
    message.source,
    message.source_id,
    message.consumer
from leased as item
left join lateral (
    select *
    from postroom.outbox_message
    where id = item.id
    limit 1
) as message on true
