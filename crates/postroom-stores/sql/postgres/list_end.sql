-- How far down a search looks: the id of the last of so many messages.
-- $1 status as in list, $2 newest id, $3 how many before it.
(
    select id
    from postroom.outbox_message
    where coalesce($1::smallint, 4) = 4
        and id <= $2::uuid
    order by id desc
    limit 1
    offset $3::integer
)
union all
(
    select id
    from postroom.outbox_settled
    where $1 = 5
        and state = 2
        and id <= $2
    order by id desc
    limit 1
    offset $3
)
union all
(
    select id
    from (
        select id from postroom.outbox_queue
        union all
        select id from postroom.outbox_parked
    ) as live
    where $1 in (1, 2, 3)
        and id <= $2
    order by id desc
    limit 1
    offset $3
)
