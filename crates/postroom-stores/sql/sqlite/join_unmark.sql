-- These dead messages are about to be live again. ?1 places, ?2 whether they are in the inbox.
-- Answers for members of open joins.
update postroom_join_message
set outcome = null
where message_id in (
    select id from postroom_outbox_settled
    where seq in (select value from json_each(?1)) and state = 2
  )
  and in_inbox = ?2
  and outcome = 2
  and join_id in (select id from postroom_join_tally where state = 0)
returning join_id
