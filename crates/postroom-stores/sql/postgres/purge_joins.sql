-- Deletes one chunk of joins that ended long enough ago and whose members are gone.
-- $1 now, $2 age in microseconds, $3 limit.
with
old as materialized (
    select id
    from postroom.join_tally as ended
    where state <> 0
        and ended_at <= coalesce($1::timestamptz, clock_timestamp())
            - $2::bigint * interval '1 microsecond'
        and not exists (
            select from postroom.join_message as member where member.join_id = ended.id
        )
    order by ended_at
    limit $3::integer
    for update skip locked
),
gone as (
    delete from postroom.join_tally
    where id = any(array(select id from old))
    returning id
)
select
    count(*) as joins,
    count(*) >= $3 as more
from gone
