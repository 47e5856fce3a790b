-- The fence: which of the items are leased under exactly this owner and token. With the answer
-- comes whether there is a join to count them for.
select
  q.seq, q.token,
  exists (select 1 from postroom_join_tally where state = 0) as joins_open
from json_each(?1) item
join postroom_outbox_queue q
  on q.seq = item.value ->> 'seq'
 and q.token = unhex(item.value ->> 'token')
 and q.owner = ?2
