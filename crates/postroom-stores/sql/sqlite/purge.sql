-- Purge and replay both begin by deleting the settled row: who gets no row does nothing.
delete from postroom_outbox_settled
where seq in (
  select seq from postroom_outbox_settled
  -- A discarded dead letter is kept like a done message.
  where state = 1 and settled_at <= ?1
     or state = 2 and reason = 6 and settled_at <= ?1
     or state = 2 and reason <> 6 and settled_at <= ?2
  order by seq
  limit ?3
)
returning seq, settled_at
