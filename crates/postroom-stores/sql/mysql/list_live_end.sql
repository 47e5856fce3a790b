-- How far down a search among live rows looks: the last of so many. Three times highest place and
-- how many; then how many before the last.
select id, seq
from (
    (
        select id, seq
        from postroom_outbox_queue force index (seq)
        where seq <= ?
        order by seq desc
        limit ?
    )
    union all
    (
        select id, seq
        from postroom_outbox_ordered force index (seq)
        where seq <= ?
        order by seq desc
        limit ?
    )
    union all
    (
        select id, seq
        from postroom_outbox_parked force index (primary)
        where seq <= ?
        order by seq desc
        limit ?
    )
) as live
order by seq desc
limit 1 offset ?
