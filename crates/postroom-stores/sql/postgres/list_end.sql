-- How far down a search looks: the id of the last of so many messages.
-- $1 where, as in list, $2 newest id, $3 how many before it, $4 type and $5 id of the aggregate,
-- $6 ordering key.
(
    select id
    from postroom.outbox_message
    where $1::smallint = 1
        and id <= $2::uuid
    order by id desc
    limit 1
    offset $3::integer
)
union all
(
    select id
    from postroom.outbox_settled
    where $1 = 2
        and state = 2
        and id <= $2
    order by id desc
    limit 1
    offset $3
)
union all
(
    select id
    from postroom.outbox_message
    where $1 = 3
        and aggregate_type = $4::text
        and aggregate_id = $5::text
        and id <= $2
    order by id desc
    limit 1
    offset $3
)
union all
(
    select id
    from postroom.outbox_message
    where $1 = 4
        and ordering_key = $6::text
        and id <= $2
    order by id desc
    limit 1
    offset $3
)
