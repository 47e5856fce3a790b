-- One join. Locking, so that it sees who was first.
select
    id, state, expected, attached, done, dead, created_at, ended_at, follow_up, content_hash
from postroom_join_tally
where id = ?
lock in share mode
