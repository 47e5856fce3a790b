update postroom_join_tally
set attached = attached + ?2, done = done + ?3, dead = dead + ?4
where id = ?1
returning expected, done, dead
