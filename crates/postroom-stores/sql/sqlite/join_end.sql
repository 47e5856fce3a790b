-- All members are settled. Answers with the message to publish, if there is one.
update postroom_join_tally
set
  state = ?2,
  ended_at = ?3,
  follow_up = (
    select f.id from postroom_join_follow_up f
    where f.join_id = postroom_join_tally.id and f.state = ?2
  )
where id = ?1
returning follow_up
