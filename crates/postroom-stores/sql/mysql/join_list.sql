-- A page of joins, newest first. State (twice), older than this id (twice), limit.
select
    id, state, expected, attached, done, dead, created_at, ended_at, follow_up
from postroom_join_tally
where (? is null or state = ?)
    and (? is null or id < ?)
order by id desc
limit ?
