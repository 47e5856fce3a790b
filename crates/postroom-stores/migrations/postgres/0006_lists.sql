-- Lists of what is to be tried again, by an index. A row without a bad attempt is in none of them,
-- and a claim changes the number of attempts only of what lost its lease twice.
create index on postroom.outbox_queue_plain (seq)
    where attempts > 0;
create index on postroom.outbox_queue_ordered (seq)
    where attempts > 0;
create index on postroom.outbox_parked (seq)
    where attempts > 0;

-- Builds for version 4 go on.
update postroom.meta
set schema_version = 6;
