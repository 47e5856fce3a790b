-- How far down a search looks: the id of the last of so many messages. Four times, for each place
-- to look at: which one is meant, as in list, that aggregate or key, newest id, how many before it.
(
    select id
    from postroom_outbox_message force index (id)
    where ? = 1
        and id <= ?
    order by id desc
    limit 1 offset ?
)
union all
(
    select id
    from postroom_outbox_settled
    where ? = 2
        and state = 2
        and id <= ?
    order by id desc
    limit 1 offset ?
)
union all
(
    select id
    from postroom_outbox_message force index (aggregate)
    where ? = 3
        and aggregate_type = ?
        and aggregate_id = ?
        and id <= ?
    order by id desc
    limit 1 offset ?
)
union all
(
    select id
    from postroom_outbox_message force index (ordering)
    where ? = 4
        and ordering_key = ?
        and id <= ?
    order by id desc
    limit 1 offset ?
)
