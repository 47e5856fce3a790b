-- One row: which migrations ran, and the oldest build that may still work here.
create table if not exists postroom_meta (
    singleton tinyint not null check (singleton = 1),
    schema_version int not null,
    min_client int not null,
    primary key (singleton)
) engine = InnoDB;

insert into postroom_meta (singleton, schema_version, min_client)
values (1, 2, 1)
on duplicate key update singleton = 1;
