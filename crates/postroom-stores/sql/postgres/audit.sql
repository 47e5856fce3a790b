-- The audit log, newest first. $1 number that is above them, $2 limit.
select number, at, actor, action, target, outcome, changed
from postroom.audit
where number < $1
order by number desc
limit $2::bigint
