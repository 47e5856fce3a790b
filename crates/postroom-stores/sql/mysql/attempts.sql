-- What happened to a message, oldest first. Its id.
select at, by_owner, kind = 2 as lease_lost, error
from postroom_outbox_attempt
where id = ?
order by n
