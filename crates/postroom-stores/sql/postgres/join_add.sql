-- Writes members that were looked at and found to be new. $1 now, $2 whether they are in the inbox;
-- then an element per member: $3 joins, $4 messages, $5 outcomes.
select postroom.join_add(
    $2::boolean, $3::uuid[], $4::uuid[], $5::smallint[],
    coalesce($1::timestamptz, clock_timestamp())
)
