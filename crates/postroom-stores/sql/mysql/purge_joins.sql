-- Now, age, limit. Members go first, in the same call.
call postroom_outbox_run_purge_joins(?, ?, ?)
