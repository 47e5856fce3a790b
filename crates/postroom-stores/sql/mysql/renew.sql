-- Now, owner, items, lease.
call postroom_outbox_run_renew(?, ?, ?, ?)
