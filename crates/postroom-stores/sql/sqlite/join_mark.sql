-- These places in the queue are about to be settled: ?1 an element per place, with its state. ?2
-- whether they are in the inbox. Answers for members of open joins.
update postroom_join_message
set outcome = ended.state
from (
  select coalesce(q.id, p.id) as id, item.value ->> 'state' as state
  from json_each(?1) item
  left join postroom_outbox_queue q on q.seq = item.value ->> 'seq'
  left join postroom_outbox_parked p on p.seq = item.value ->> 'seq'
) as ended
where message_id = ended.id
  and in_inbox = ?2
  and outcome is null
  and join_id in (select id from postroom_join_tally where state = 0)
returning join_id, outcome
