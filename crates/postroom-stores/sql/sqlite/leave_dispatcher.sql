delete from postroom_outbox_dispatcher
where owner = ?1
