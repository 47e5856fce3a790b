-- Now, owner, items, whether done messages are kept, whether the dead stop their keys.
call postroom_outbox_run_settle(?, ?, ?, ?, ?)
