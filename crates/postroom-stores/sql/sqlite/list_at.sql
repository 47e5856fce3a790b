-- A message, or if it is gone the next older one: where a list of live rows goes on. ?1 id.
select id, seq from postroom_outbox_message
where id <= ?1
order by id desc limit 1
