-- Lists of dead letters, and of what is to be tried again, by an index. Others do not pay for it.
create index if not exists postroom_outbox_settled_dead
  on postroom_outbox_settled (id) where state = 2;
create index if not exists postroom_outbox_queue_failed
  on postroom_outbox_queue (seq) where attempts > 0;
create index if not exists postroom_outbox_parked_failed
  on postroom_outbox_parked (seq) where attempts > 0;
