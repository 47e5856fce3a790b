-- Deletes one chunk of idempotency keys whose message was settled long enough ago.
-- $1 now, $2 age in microseconds, $3 limit.
-- The key of a live message, or of a dead one that can be replayed, stays whatever its age.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) - $2::bigint * interval '1 microsecond'
        as settled_before
),
old as materialized (
    select hash
    from postroom.outbox_key as key
    where created_at <= (select settled_before from clock)
        and case
            when settled_at is not null then settled_at <= (select settled_before from clock)
            else not exists (
                select
                from postroom.outbox_message as message
                where message.id = key.message_id
                    -- A value, not a join: one that thinks the table is small reads all of it for
                    -- each key.
                    and coalesce((
                        select settled.state <> 1
                            or settled.settled_at > (select settled_before from clock)
                        from postroom.outbox_settled as settled
                        where settled.seq = message.seq
                    ), true)
            )
        end
    order by created_at
    limit $3::integer
    for update skip locked
),
gone as (
    delete from postroom.outbox_key
    where hash = any(array(select hash from old))
    returning hash
)
select
    count(*) as keys,
    count(*) >= $3 as more
from gone
