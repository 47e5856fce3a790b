-- How far down a search looks: the id of the last of so many messages. Three times, for each place
-- to look at: status as in list, newest id, how many before it.
(
    select id
    from postroom_outbox_message force index (id)
    where coalesce(?, 4) = 4
        and id <= ?
    order by id desc
    limit 1 offset ?
)
union all
(
    select id
    from postroom_outbox_settled
    where ? = 5
        and state = 2
        and id <= ?
    order by id desc
    limit 1 offset ?
)
union all
(
    select id
    from (
        select id from postroom_outbox_queue
        union all
        select id from postroom_outbox_ordered
        union all
        select id from postroom_outbox_parked
    ) as live
    where ? in (1, 2, 3)
        and id <= ?
    order by id desc
    limit 1 offset ?
)
