-- An owner of slots is alive, until ?2 at least. Who has left does not come back by finishing what
-- it holds.
update postroom_outbox_node
set live_until = max(live_until, ?2)
where owner = ?1
