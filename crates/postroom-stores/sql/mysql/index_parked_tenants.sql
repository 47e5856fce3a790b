-- The tenants that wait for something, each with its rows in the order of claims: for stores with
-- fair_tenants.
set @postroom_index = (
    select if(
        count(*) = 0,
        'create index tenants on postroom_outbox_parked (tenant_hash, band, wake_at, seq)',
        'do 0'
    )
    from information_schema.statistics
    where table_schema = database()
        and table_name = 'postroom_outbox_parked'
        and index_name = 'tenants'
);
prepare postroom_index from @postroom_index;
execute postroom_index;
deallocate prepare postroom_index;
