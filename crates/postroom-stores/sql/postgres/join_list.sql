-- A page of joins, newest first. $1 state, $2 older than this id (null for the first), $3 limit.
select
    id, state, expected, attached, done, dead, created_at, ended_at, follow_up
from postroom.join_tally
where ($1::smallint is null or state = $1)
    and ($2::uuid is null or id < $2)
order by id desc
limit $3::integer
