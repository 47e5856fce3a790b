-- A page of the members of a join. $1 join, $2 after this message (null for the first), $3 limit.
select message_id, outcome
from postroom.join_message
where join_id = $1::uuid
    and ($2::uuid is null or message_id > $2)
order by message_id
limit $3::integer
