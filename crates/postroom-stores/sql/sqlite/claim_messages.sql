select *
from postroom_outbox_message
where seq in (select value from json_each(?1))
