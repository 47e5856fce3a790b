-- What there is to know about messages that are to be members, with everything locked that could
-- change it: [["join", "message", fresh], ...].
call postroom_outbox_run_join_look(?)
