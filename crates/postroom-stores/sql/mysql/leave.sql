-- Gives back the slots of an owner, but those in which it holds rows.
call postroom_outbox_run_leave(?)
