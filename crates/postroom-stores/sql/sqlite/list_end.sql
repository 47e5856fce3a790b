-- How far down a search looks: the id of the last of so many messages.
-- ?1 where, as in list, ?2 newest id, ?3 how many before it, ?4 type and ?5 id of the aggregate,
-- ?6 ordering key.
select id from (
  select id from postroom_outbox_message
  where ?1 = 1 and id <= ?2
  order by id desc limit 1 offset ?3
)
union all
select id from (
  select id from postroom_outbox_settled indexed by postroom_outbox_settled_dead
  where ?1 = 2 and state = 2 and id <= ?2
  order by id desc limit 1 offset ?3
)
union all
select id from (
  select id from postroom_outbox_message indexed by postroom_outbox_message_aggregate
  where ?1 = 3 and aggregate_type = ?4 and aggregate_id = ?5 and id <= ?2
  order by id desc limit 1 offset ?3
)
union all
select id from (
  select id from postroom_outbox_message indexed by postroom_outbox_message_ordering
  where ?1 = 4 and ordering_key = ?6 and id <= ?2
  order by id desc limit 1 offset ?3
)
