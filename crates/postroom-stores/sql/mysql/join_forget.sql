-- The follow-ups of a join that has ended without one.
delete from postroom_join_follow_up
where join_id = ?
