-- What is paused: hashes of topics, null for the whole queue.
select topic_hash
from postroom_outbox_control
order by topic
