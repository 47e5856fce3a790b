-- Now, places with their hashes.
call postroom_outbox_run_replay(?, ?)
