-- Which of these keys are ours: hashes, who wrote them. A locking read sees what is committed.
select taken.hash
from json_table(?, '$[*]' columns (hash varchar(64) path '$')) as wanted
straight_join postroom_outbox_key as taken on taken.hash = unhex(wanted.hash)
where taken.written_by = ?
for update
