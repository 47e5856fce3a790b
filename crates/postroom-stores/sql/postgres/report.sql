-- A dispatcher's sign of life: the last one counts, and of its start the first. Whoever was silent
-- for a day is forgotten. $1 now, $2 owner, $3 name, $4 version, $5 for how long it runs, $6 for
-- how long this is good, both in microseconds, $7 draining.
with
clock as materialized (
    select coalesce($1::timestamptz, clock_timestamp()) as now
),
silent as (
    delete from postroom.outbox_dispatcher
    where seen_at < (select now from clock) - interval '1 day'
        and owner <> $2::uuid
)
insert into postroom.outbox_dispatcher (
    owner, name, version, started_at, seen_at, live_until, draining
)
select
    $2, $3::text, $4::text,
    now - $5::bigint * interval '1 microsecond', now, now + $6::bigint * interval '1 microsecond',
    $7::boolean
from clock
on conflict (owner) do update
set name = excluded.name,
    version = excluded.version,
    seen_at = excluded.seen_at,
    live_until = excluded.live_until,
    draining = excluded.draining
