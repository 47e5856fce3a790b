-- One join. Without a lock: whoever attaches locks places before joins.
select
    id, state, expected, attached, done, dead, created_at, ended_at, follow_up, content_hash
from postroom_join_tally
where id = ?
