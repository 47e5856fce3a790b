-- A message, or if it is gone the next older one: where a list of live rows goes on. Its id.
select id, seq
from postroom_outbox_message force index (id)
where id <= ?
order by id desc
limit 1
