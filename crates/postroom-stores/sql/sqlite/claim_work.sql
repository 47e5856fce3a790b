-- Whether there is ordered work: in the queue, or parked and due. ?1 now.
select
  exists (select 1 from postroom_outbox_queue where slot >= 0)
  or exists (select 1 from postroom_outbox_parked where slot is not null and wake_at <= ?1) as any
