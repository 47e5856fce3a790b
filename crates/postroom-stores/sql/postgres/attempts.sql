-- What happened to a message, oldest first. $1 id.
select at, by_owner, kind = 2 as lease_lost, error
from postroom.outbox_attempt
where id = $1::uuid
order by n
