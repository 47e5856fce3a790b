-- What is paused: hashes of topics, null for the whole queue.
select topic_hash
from postroom.outbox_control
order by coalesce(topic, '')
