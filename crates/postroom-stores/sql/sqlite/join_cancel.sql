update postroom_join_tally
set state = 3, ended_at = ?2
where id = ?1 and state = 0
