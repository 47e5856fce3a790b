select at, by_owner, kind, error
from postroom_outbox_attempt
where id = ?1
order by n
