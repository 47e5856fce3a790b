-- The tenants that have work, each with its rows in the order of claims: for stores with
-- fair_tenants. Its columns are none that a claim changes. The place is an expression so that no
-- statement about one tenant is planned by the primary key, where all tenants' rows lie.
create index if not exists outbox_queue_tenants
on postroom.outbox_queue_plain (
    (coalesce(tenant_hash, '-9223372036854775808'::bigint)), (-priority), (seq + 0)
)
