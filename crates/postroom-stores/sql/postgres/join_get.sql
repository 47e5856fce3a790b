-- One join. $1 id. A statement of its own also after a start: its snapshot sees who was first.
select
    id, state, expected, attached, done, dead, created_at, ended_at, follow_up, content_hash
from postroom.join_tally
where id = $1::uuid
