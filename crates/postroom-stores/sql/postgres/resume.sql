delete from postroom.outbox_control
where coalesce(topic, '') = coalesce($1::text, '')
returning true as was_there
