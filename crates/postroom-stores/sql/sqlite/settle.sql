-- The fence: which of the items are leased under exactly this owner and token.
select q.seq, q.token
from json_each(?1) item
join postroom_outbox_queue q
  on q.seq = item.value ->> 'seq'
 and q.token = unhex(item.value ->> 'token')
 and q.owner = ?2
