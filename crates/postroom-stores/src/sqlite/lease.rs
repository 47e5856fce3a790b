//! Renewing, reaping, and the bookkeeping of leases that ran out.

use std::collections::BTreeSet;
use std::time::Duration;

use postroom_core::lifecycle::{self, DeadReason};
use postroom_core::store::{Reaped, Settled};
use postroom_core::{Lease, OwnerToken, Result, Timestamp};
use serde_json::json;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, SqlStr};
use uuid::Uuid;

use super::claim::Counters;
use super::classify::classify;
use super::{SqliteStore, commit};

impl SqliteStore {
    pub(super) async fn do_renew(
        &self,
        owner: OwnerToken,
        leases: &[Lease],
        lease: Duration,
    ) -> Result<Settled> {
        let mut tx = self.begin_write().await?;
        let now = self.now();
        let until = now.saturating_add(lease);
        let mut renewed = Settled::default();
        let mut slots = BTreeSet::new();
        for item in leases {
            let slot = sqlx::query(self.sql().renew.clone())
                .bind(item.work.seq())
                .bind(item.token.as_uuid())
                .bind(owner.as_uuid())
                .bind(until.as_micros())
                .bind(now.as_micros())
                .fetch_optional(&mut *tx)
                .await
                .map_err(classify)?;
            match slot {
                Some(row) => {
                    slots.extend(row.try_get::<Option<i16>, _>("slot").map_err(classify)?);
                    renewed.applied += 1;
                }
                None => renewed.lost.push(*item),
            }
        }
        if !slots.is_empty() {
            self.renew_slots(&mut tx, &slots, until).await?;
            self.sign_of_life(&mut tx, &self.sql().node_renew, owner, until).await?;
        }
        commit(tx).await?;
        Ok(renewed)
    }

    pub(super) async fn do_reap(&self, limit: u32, max_attempts: u32) -> Result<Reaped> {
        let mut tx = self.begin_write().await?;
        let now = self.now();
        // Both are read before either is changed: an item is treated once.
        let ran_out = self.rows(&mut tx, &self.sql().reap, limit, now).await?;
        let expired = self.rows(&mut tx, &self.sql().reap_expired, limit, now).await?;
        let full = limit as usize;
        let more = ran_out.len() == full || expired.len() == full;
        let mut reaped = Reaped { more, ..Reaped::default() };
        for row in &ran_out {
            let by: Uuid = row.try_get("owner").map_err(classify)?;
            let mut item = counters(row).map_err(classify)?;
            let after = lifecycle::after_lost_lease(item.attempts, item.lost, max_attempts);
            (item.attempts, item.lost) = (after.attempts, after.lost);
            self.record_lost_lease(&mut tx, &item, by, now).await?;
            if after.dead {
                let reason = DeadReason::LostLeases;
                self.bury(&mut tx, &item, false, reason, None, now).await?;
                reaped.dead += 1;
            } else {
                self.release_reaped(&mut tx, &item).await?;
                reaped.released += 1;
            }
        }
        for row in &expired {
            let item = counters(row).map_err(classify)?;
            let parked = row.try_get("parked").map_err(classify)?;
            self.bury(&mut tx, &item, parked, DeadReason::Expired, None, now).await?;
            reaped.dead += 1;
        }
        commit(tx).await?;
        Ok(reaped)
    }

    async fn rows(
        &self,
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<sqlx::sqlite::SqliteRow>> {
        sqlx::query(statement.clone())
            .bind(now.as_micros())
            .bind(limit)
            .fetch_all(conn)
            .await
            .map_err(classify)
    }

    async fn release_reaped(&self, conn: &mut SqliteConnection, item: &Counters) -> Result<()> {
        sqlx::query(self.sql().reap_release.clone())
            .bind(item.seq)
            .bind(item.attempts)
            .bind(item.lost)
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// The history of a lease that ran out; `item` has the counters after that.
    pub(super) async fn record_lost_lease(
        &self,
        conn: &mut SqliteConnection,
        item: &Counters,
        by: Uuid,
        now: Timestamp,
    ) -> Result<()> {
        sqlx::query(self.sql().lost_lease.clone())
            .bind(item.seq)
            .bind(now.as_micros())
            .bind(by)
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// A live item is dead: out of the queue or the parked ones, into the settled ones.
    pub(super) async fn bury(
        &self,
        conn: &mut SqliteConnection,
        item: &Counters,
        parked: bool,
        reason: DeadReason,
        by: Option<OwnerToken>,
        now: Timestamp,
    ) -> Result<()> {
        self.count_dead(conn, &[item.seq], now).await?;
        sqlx::query(self.sql().bury.clone())
            .bind(item.seq)
            .bind(reason.code())
            .bind(now.as_micros())
            .bind(by.map(OwnerToken::as_uuid))
            .bind(item.attempts)
            .bind(item.lost)
            .execute(&mut *conn)
            .await
            .map_err(classify)?;
        self.halt(conn, &[item.seq]).await?;
        let from = if parked { &self.sql().claim_unparked } else { &self.sql().unqueue };
        self.run_on(conn, from, &[item.seq]).await
    }

    /// Dead rows stop their keys, if they are ordered and the store was told so. Call it while they
    /// are still in the queue.
    pub(super) async fn halt(&self, conn: &mut SqliteConnection, dead: &[i64]) -> Result<()> {
        if self.inner.config.halt {
            self.run_on(conn, &self.sql().halt, dead).await?;
        }
        Ok(())
    }

    /// Runs a statement that takes a list of places.
    pub(super) async fn run_on(
        &self,
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        seqs: &[i64],
    ) -> Result<()> {
        if seqs.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(statement.clone()).bind(json!(seqs).to_string());
        query.execute(conn).await.map_err(classify)?;
        Ok(())
    }
}

fn counters(row: &sqlx::sqlite::SqliteRow) -> sqlx::Result<Counters> {
    Ok(Counters {
        seq: row.try_get("seq")?,
        attempts: row.try_get("attempts")?,
        lost: row.try_get("lost")?,
    })
}
