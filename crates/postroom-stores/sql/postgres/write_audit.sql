-- $1 now, $2 actor, $3 action, $4 target, $5 outcome, $6 how many messages.
insert into postroom.audit (at, actor, action, target, outcome, changed)
values (coalesce($1::timestamptz, clock_timestamp()), $2, $3, $4, $5, $6)
