-- A page of the members of a join: join, after this message (twice), limit.
select message_id, outcome
from postroom_join_message
where join_id = ?
    and (? is null or message_id > ?)
order by message_id
limit ?
