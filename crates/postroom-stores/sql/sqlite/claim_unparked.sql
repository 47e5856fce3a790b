delete from postroom_outbox_parked
where seq in (select value from json_each(?1))
