-- Takes back what one append wrote: ids of messages, hashes of keys.
call postroom_outbox_run_undo(?, ?)
