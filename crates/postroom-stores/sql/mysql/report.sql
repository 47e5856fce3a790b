-- A dispatcher's sign of life: the last one counts, and of its start the first. Owner, name,
-- version, draining, for how long it runs, for how long this is good, both in microseconds; now.
insert into postroom_outbox_dispatcher (
    owner, name, version, draining, started_at, live_until, seen_at
)
select owner, name, version, draining, now - runs, now + good, now
from (
    select
        cast(? as binary(16)) as owner,
        cast(? as binary) as name,
        cast(? as binary) as version,
        cast(? as signed) as draining,
        cast(? as signed) as runs,
        cast(? as signed) as good,
        coalesce(?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6)))
            as now
) as said
on duplicate key update
    name = said.name,
    version = said.version,
    draining = said.draining,
    live_until = said.now + said.good,
    seen_at = said.now
