select nullif(topic, '') as topic, paused_at, paused_by, reason
from postroom_outbox_control
order by topic
