delete from postroom_join_follow_up
where join_id = ?1
