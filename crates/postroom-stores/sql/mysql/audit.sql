-- The audit log, newest first. Number that is above them, limit.
select number, at, actor, action, target, outcome, changed
from postroom_audit
where number < ?
order by number desc
limit ?
