delete from postroom_outbox_node
where owner = ?1
