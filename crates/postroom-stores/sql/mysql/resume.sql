delete from postroom_outbox_control
where topic = ?
