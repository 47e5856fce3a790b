-- Takes back the messages of an append that met a taken id. Their places are not written yet.
delete from postroom_outbox_message
where seq in (select value from json_each(?1))
