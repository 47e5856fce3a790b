-- As claim.sql up to the attempts; then the slot and key behind which to begin, keys in hand,
-- topics to leave out, whether the dead stop their keys.
call postroom_outbox_run_claim_ordered(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
