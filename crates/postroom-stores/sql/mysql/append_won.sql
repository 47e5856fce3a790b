-- Which of these keys are ours: hashes, who wrote them. A locking read sees what is committed. By
-- the index, however small the table: at REPEATABLE READ a scan would lock everybody's keys.
select taken.hash
from json_table(?, '$[*]' columns (hash varchar(64) path '$')) as wanted
straight_join postroom_outbox_key as taken force index (primary) on taken.hash = unhex(wanted.hash)
where taken.written_by = ?
for update
