-- The tenants that have work, each with its rows in the order of claims: for stores with
-- fair_tenants. Its columns are none that a claim changes. MySQL can not be told to make an index
-- only if there is none.
set @postroom_index = (
    select if(
        count(*) = 0,
        'create index tenants on postroom_outbox_queue (tenant_hash, band, seq)',
        'do 0'
    )
    from information_schema.statistics
    where table_schema = database()
        and table_name = 'postroom_outbox_queue'
        and index_name = 'tenants'
);
prepare postroom_index from @postroom_index;
execute postroom_index;
deallocate prepare postroom_index;
