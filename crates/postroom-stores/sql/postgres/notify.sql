-- Rings for whoever listens. $1 channel, $2 payload: who rings.
select pg_notify($1, $2)
