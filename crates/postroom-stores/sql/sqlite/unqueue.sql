delete from postroom_outbox_queue
where seq in (select value from json_each(?1))
