-- How an owner stands: until when it counts as alive, how many others do, how many slots it has,
-- which of them ends first, and how many are free. ?1 owner, ?2 now.
select
  (select live_until from postroom_outbox_node where owner = ?1) as live_until,
  (select count(*) from postroom_outbox_node where owner <> ?1 and live_until > ?2) as others,
  count(*) filter (where owner = ?1 and locked_until > ?2) as mine,
  min(locked_until) filter (where owner = ?1 and locked_until > ?2) as first_end,
  count(*) filter (where owner is null or locked_until <= ?2) as free
from postroom_outbox_slot
