-- Now, limit of each kind, attempts at which a suspect is dead.
call postroom_outbox_run_reap(?, ?, ?)
