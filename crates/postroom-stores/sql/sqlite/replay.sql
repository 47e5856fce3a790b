-- Purge and replay both begin by deleting the settled row: who gets no row does nothing.
delete from postroom_outbox_settled
where seq in (select value from json_each(?1))
  and state = 2
