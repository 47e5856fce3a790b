-- Wakes the dispatchers that listen on a channel.
select pg_notify($1::text, '')
