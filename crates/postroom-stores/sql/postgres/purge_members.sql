-- Deletes one chunk of members of joins that ended long enough ago.
-- $1 now, $2 age in microseconds, $3 limit. First the members: a join may have a million.
with
ripe as materialized (
    select id
    from postroom.join_tally
    where state <> 0
        and ended_at <= coalesce($1::timestamptz, clock_timestamp())
            - $2::bigint * interval '1 microsecond'
    order by ended_at
    limit $3::integer
),
old as materialized (
    select member.join_id, member.message_id
    from ripe
    cross join lateral (
        select join_id, message_id
        from postroom.join_message
        where join_id = ripe.id
        limit $3::integer
    ) as member
    limit $3::integer
),
gone as (
    delete from postroom.join_message as member
    using old
    where member.join_id = old.join_id
        and member.message_id = old.message_id
    returning member.join_id
)
select
    count(*) as members,
    count(*) >= $3 as more
from gone
