-- Members of joins that ended long enough ago. First these: a join may have a million.
delete from postroom_join_message
where (join_id, message_id) in (
  select m.join_id, m.message_id
  from postroom_join_tally g
  join postroom_join_message m on m.join_id = g.id
  where g.state <> 0 and g.ended_at <= ?1
  limit ?2
)
