delete from postroom_outbox_halt
where seq in (select value from json_each(?1))
