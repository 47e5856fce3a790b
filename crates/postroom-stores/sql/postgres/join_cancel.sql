-- Ends an open join without a follow-up. $1 now, $2 id. Answers with it if it was open.
with
cancelled as (
    update postroom.join_tally
    set state = 3,
        ended_at = coalesce($1::timestamptz, clock_timestamp())
    where id = $2::uuid
        and state = 0
    returning id
),
forgotten as (
    delete from postroom.join_follow_up
    where join_id in (select id from cancelled)
)
select id
from cancelled
