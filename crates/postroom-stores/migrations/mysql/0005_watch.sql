-- What people look at. One box, and at the end what both share.

-- What dispatchers say of themselves. The slots are divided by the table of nodes, not by this.
create table if not exists postroom_outbox_dispatcher (
    owner binary(16) not null,
    name varbinary(255) not null,
    version varbinary(255) not null,
    started_at bigint not null,
    seen_at bigint not null,
    live_until bigint not null,
    draining tinyint not null,
    primary key (owner)
) engine = InnoDB;

-- Lists by aggregate and by ordering key. Only one of the two databases knows "if not exists" here.
-- Messages come and go while they are built.
set @postroom_step = (
    select if(
        count(*) = 0,
        'create index aggregate on postroom_outbox_message (aggregate_type, aggregate_id, id)',
        'do 0'
    )
    from information_schema.statistics
    where table_schema = database()
        and table_name = 'postroom_outbox_message'
        and index_name = 'aggregate'
);
prepare postroom_step from @postroom_step;
execute postroom_step;
deallocate prepare postroom_step;

set @postroom_step = (
    select if(
        count(*) = 0,
        'create index ordering on postroom_outbox_message (ordering_key, id)',
        'do 0'
    )
    from information_schema.statistics
    where table_schema = database()
        and table_name = 'postroom_outbox_message'
        and index_name = 'ordering'
);
prepare postroom_step from @postroom_step;
execute postroom_step;
deallocate prepare postroom_step;

-- What people did, in both boxes.
create table if not exists postroom_audit (
    number bigint not null auto_increment,
    at bigint not null,
    actor varbinary(255) not null,
    action varbinary(255) not null,
    target varbinary(2000) not null,
    outcome varbinary(2000) not null,
    changed bigint not null,
    primary key (number)
) engine = InnoDB;

-- Builds for version 4 go on: they say nothing of themselves.
update postroom_meta
set schema_version = greatest(schema_version, 5);
