select topic, paused_at, paused_by, reason
from postroom.outbox_control
order by topic collate "C" nulls first
