-- Nothing to add to a box: on this database the columns of an origin were there from the start.
-- It keeps the numbers of the migrations equal on every database.
update postroom_meta
set schema_version = greatest(schema_version, 3),
    min_client = greatest(min_client, 3);
