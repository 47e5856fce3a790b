-- As claim.sql up to the attempts; then the tenant to begin behind, topics to leave out, tenants to
-- visit at most, tenants with waiting rows to look at.
call postroom_outbox_run_claim_fair(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
