-- Now, ids.
call postroom_outbox_run_discard(?, ?)
