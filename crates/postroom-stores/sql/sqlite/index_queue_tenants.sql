-- The tenants that have work, each with its rows in the order of claims: for stores with
-- fair_tenants. Its columns are none that a claim changes.
create index if not exists postroom_outbox_queue_tenants
  on postroom_outbox_queue (coalesce(tenant_hash, -9223372036854775808), priority desc, seq)
  where slot is null
