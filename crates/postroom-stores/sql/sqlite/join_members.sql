-- A page of the members of a join. ?1 join, ?2 after this message, ?3 limit.
select message_id, outcome
from postroom_join_message
where join_id = ?1
  and (?2 is null or message_id > ?2)
order by message_id
limit ?3
