-- Takes note of a key without a message. $1 now, $2 hash, $3 an id that no message has. Touches a
-- row when it is new; a rival's transaction is waited for. Nothing is known of its content.
insert into postroom.outbox_key (hash, created_at, settled_at, message_id, content_hash)
select $2::bytea, now, now, $3::uuid, ''
from (
    select coalesce($1::timestamptz, clock_timestamp()) as now
) as clock
on conflict (hash) do nothing
