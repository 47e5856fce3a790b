-- They are taken in, up to this place.
delete from postroom_outbox_incoming
where seq <= ?1
