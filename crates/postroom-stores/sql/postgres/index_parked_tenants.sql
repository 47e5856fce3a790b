-- The tenants that wait for something, each with its rows in the order of their time, above, at and
-- below priority 0: for stores with fair_tenants.
create index if not exists outbox_parked_tenants
on postroom.outbox_parked (
    (coalesce(tenant_hash, '-9223372036854775808'::bigint)),
    (greatest(-1, least(1, -priority))),
    wake_at,
    seq
)
where slot is null
