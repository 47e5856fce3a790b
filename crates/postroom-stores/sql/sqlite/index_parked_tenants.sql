-- The tenants that wait for something, each with its rows in the order of their time, above, at and
-- below priority 0: for stores with fair_tenants.
create index if not exists postroom_outbox_parked_tenants
  on postroom_outbox_parked (
    coalesce(tenant_hash, -9223372036854775808), ((priority > 0) - (priority < 0)), wake_at, seq)
  where slot is null
