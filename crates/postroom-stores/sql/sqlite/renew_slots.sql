-- The slots of renewed rows, which the owner has: their rows said so.
update postroom_outbox_slot
set locked_until = max(locked_until, ?2)
where slot in (select value from json_each(?1))
