-- A page of joins, newest first. ?1 state, ?2 older than this id, ?3 limit.
select id, state, expected, attached, done, dead, created_at, ended_at, follow_up
from postroom_join_tally
where (?1 is null or state = ?1)
  and (?2 is null or id < ?2)
order by id desc
limit ?3
