delete from postroom_outbox_key
where hash = ?1
