-- Now, owner, token, lease, batch, suspects, attempts at which a suspect is dead, floor, topics to
-- leave out.
call postroom_outbox_run_claim(?, ?, ?, ?, ?, ?, ?, ?, ?)
