-- Now, age of done, age of dead (null keeps them), limit.
call postroom_outbox_run_purge(?, ?, ?, ?)
