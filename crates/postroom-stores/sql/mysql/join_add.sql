-- Now, new members: [["join", "message", outcome], ...].
call postroom_outbox_run_join_add(?, ?)
