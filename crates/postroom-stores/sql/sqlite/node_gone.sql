delete from postroom_outbox_node
where live_until <= ?1
