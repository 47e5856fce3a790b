-- Leases ordered rows: the stretch of keys behind ($8, $9). See order.sql.
-- $1 now, $2 owner, $3 fresh token, $4 lease in microseconds, $5 room, $6 suspects at most,
-- $7 attempts at which a suspect is dead, $8 slot and $9 hash of the key to start behind,
-- $10 hashes of the keys that the owner holds (null: look), $11 topics to leave out, besides paused
-- ones, $12 a dead row stops its key, $13 room for rows in all, those that the owner holds
-- included: it is shared out among keys, and so many rows are moved that came due.
select *
from postroom.outbox_claim_ordered($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
