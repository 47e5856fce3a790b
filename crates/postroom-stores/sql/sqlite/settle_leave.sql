-- Unordered retries leave the queue: they are parked by now.
delete from postroom_outbox_queue
where seq in (
  select item.value ->> 'seq'
  from json_each(?1) item
  join postroom_outbox_queue q on q.seq = item.value ->> 'seq'
  where item.value ->> 'wake_at' is not null
    and q.slot is null
)
