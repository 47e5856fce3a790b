-- How many messages lie behind what stops a key, up to a limit. Slot, key, place, limit.
select count(*) as behind
from (
    select 1
    from postroom_outbox_ordered
    where slot = ?
        and key_hash = ?
        and seq <> ?
    limit ?
) as counted
