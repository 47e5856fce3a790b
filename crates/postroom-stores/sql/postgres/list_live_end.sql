-- How far down a search among live rows looks: the last of so many.
-- $1 status, as in list, $2 highest place in the queue, $3 how many before the last.
select id, seq
from (
    (
        select id, seq
        from postroom.outbox_queue_plain
        where $1::smallint <> 3
            and seq <= $2::bigint
        order by seq desc
        limit $3::integer + 1
    )
    union all
    (
        select id, seq
        from postroom.outbox_queue_ordered
        where $1 <> 3
            and seq <= $2
        order by seq desc
        limit $3 + 1
    )
    union all
    (
        select id, seq
        from postroom.outbox_parked
        where $1 <> 3
            and seq <= $2
        order by seq desc
        limit $3 + 1
    )
    union all
    (
        select id, seq
        from postroom.outbox_queue_plain
        where $1 = 3
            and attempts > 0
            and seq <= $2
        order by seq desc
        limit $3 + 1
    )
    union all
    (
        select id, seq
        from postroom.outbox_queue_ordered
        where $1 = 3
            and attempts > 0
            and seq <= $2
        order by seq desc
        limit $3 + 1
    )
    union all
    (
        select id, seq
        from postroom.outbox_parked
        where $1 = 3
            and attempts > 0
            and seq <= $2
        order by seq desc
        limit $3 + 1
    )
) as live
order by seq desc
limit 1
offset $3
