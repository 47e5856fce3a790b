-- What the join is that has an id already. Locking, so that it sees who was first.
select content_hash
from postroom_join_tally
where id = ?
lock in share mode
