//! Claiming.

use postroom_core::lifecycle::{DeadReason, Settlement};
use postroom_core::store::{Claim, Claimed, WorkItem};
use postroom_core::{Lease, LeaseToken, Result, WorkId, micros};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::PgStore;
use super::classify::classify;
use super::floor::Start;
use super::row::{counter, small_count, stored_message, time};

const WHAT: &str = "claim";

const UNDECODABLE: Settlement =
    Settlement::Dead { reason: DeadReason::Undecodable, counted: false, error: None };

impl PgStore {
    pub(super) async fn claim_batch(&self, claim: &Claim) -> Result<Claimed> {
        let token = LeaseToken::random();
        let start = self.floor.start();
        let bounded = start.is_bounded();
        let mut rows = self.look(claim, token, start).await?;
        if bounded && !has_found(&rows)? {
            // Nothing above the floor: what lies below is all there is, and must not be hidden.
            rows = self.look(claim, token, self.floor.start_at_the_beginning()).await?;
        }
        let mut claimed = Claimed::default();
        let mut undecodable = Vec::new();
        for row in &rows {
            claimed.dead = small_count(row, "dead").map_err(|error| classify(WHAT, error))?;
            let seq: Option<i64> = row.try_get("seq").map_err(|error| classify(WHAT, error))?;
            let Some(seq) = seq else { continue };
            let lease = Lease { work: WorkId::new(seq), token };
            match work_item(row, lease) {
                Ok(item) => claimed.items.push(item),
                Err(_) => undecodable.push((lease, UNDECODABLE)),
            }
        }
        if !undecodable.is_empty() {
            // When this fails the rows come back with their leases: no reason to lose the others.
            let settled = self.settle_items(claim.owner(), &undecodable).await;
            let dead = settled.map_or(0, |settled| settled.applied);
            claimed.dead += u32::try_from(dead).unwrap_or(u32::MAX);
        }
        Ok(claimed)
    }

    /// One claim from `start` on.
    async fn look(&self, claim: &Claim, token: LeaseToken, start: Start) -> Result<Vec<PgRow>> {
        let rows = self.claimed_rows(claim, token, start.seq()).await?;
        let read = |error| classify(WHAT, error);
        let passed = rows.first().map_or(Ok(None), |row| row.try_get("passed")).map_err(read)?;
        let lost: Vec<Option<i32>> = rows
            .iter()
            .map(|row| row.try_get("lost"))
            .collect::<sqlx::Result<_>>()
            .map_err(read)?;
        let found = lost.iter().flatten().count();
        // Suspects come in small numbers: where there was one there may be more. And a claim that
        // is not full has seen all that lies above the floor.
        let again = lost.iter().flatten().any(|lost| *lost > 0);
        self.floor.finish(start, passed, again || found < claim.batch() as usize);
        Ok(rows)
    }

    async fn claimed_rows(
        &self,
        claim: &Claim,
        token: LeaseToken,
        start: i64,
    ) -> Result<Vec<PgRow>> {
        let query = self
            .query(&self.sql.claim)
            .bind(self.now())
            .bind(claim.owner().as_uuid())
            .bind(token.as_uuid())
            .bind(micros(claim.lease()))
            .bind(integer(claim.batch()))
            .bind(integer(claim.max_suspects()))
            .bind(integer(claim.attempts_limit()))
            .bind(start);
        self.engine_rows(WHAT, query).await
    }
}

/// Whether a claim took anything, be it to make it dead.
fn has_found(rows: &[PgRow]) -> Result<bool> {
    let Some(first) = rows.first() else { return Ok(false) };
    let read = || -> sqlx::Result<bool> {
        Ok(first.try_get::<Option<i64>, _>("seq")?.is_some() || small_count(first, "dead")? > 0)
    };
    read().map_err(|error| classify(WHAT, error))
}

/// SQL's integers are signed; nothing that we count reaches their end.
pub(super) fn integer(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A row that can not be read, for whatever reason, must not fail its batch.
fn work_item(row: &PgRow, lease: Lease) -> Result<WorkItem> {
    let read = |error| classify("read a message", error);
    Ok(WorkItem {
        lease,
        message: stored_message(row).map_err(read)?.decode()?,
        attempts: counter(row, "attempts").map_err(read)?,
        lost: counter(row, "lost").map_err(read)?,
        created_at: time(row, "created_at").map_err(read)?,
        locked_until: time(row, "locked_until").map_err(read)?,
    })
}
