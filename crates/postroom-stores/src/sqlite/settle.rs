//! Settling: check the fence, then carry out what remains, in one transaction.

use std::collections::HashSet;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::Settled;
use postroom_core::{Lease, LeaseToken, OwnerToken, Result, Timestamp, WorkId};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, SqlStr};
use uuid::Uuid;

use super::classify::classify;
use super::{SqliteStore, commit};
use crate::row::{DEAD, DONE};

impl SqliteStore {
    pub(super) async fn do_settle(
        &self,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
    ) -> Result<Settled> {
        let mut tx = self.begin_write().await?;
        let settled = self.settle_on(&mut tx, owner, items).await?;
        if settled.applied > 0 {
            commit(tx).await?;
        }
        Ok(settled)
    }

    /// Within a transaction, the engine's own or a handler's.
    pub(super) async fn settle_on(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
    ) -> Result<Settled> {
        let now = self.now();
        let Fenced { held, joins_open } = self.held(conn, owner, items).await?;
        let (mine, lost): (Vec<_>, Vec<_>) =
            items.iter().partition(|(lease, _)| held.contains(lease));
        if !mine.is_empty() {
            if joins_open {
                let ended = mine.iter().filter_map(|(lease, settlement)| {
                    ended_as(settlement).map(|state| (lease.work.seq(), state))
                });
                self.count_settled(conn, &ended.collect::<Vec<_>>(), now).await?;
            }
            self.carry_out(conn, owner, &mine, now).await?;
        }
        let lost = lost.into_iter().map(|(lease, _)| *lease).collect();
        Ok(Settled { applied: mine.len(), lost, unknown: Vec::new() })
    }

    /// The leases that are this owner's and current.
    async fn held(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
    ) -> Result<Fenced> {
        let seqs: Vec<_> = items.iter().map(|(lease, _)| lease.work.seq()).collect();
        let rows = sqlx::query(self.sql().settle.clone())
            .bind(json!(seqs).to_string())
            .bind(owner.as_uuid())
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        let lease = |row: &SqliteRow| -> sqlx::Result<Lease> {
            let work = WorkId::new(row.try_get("seq")?);
            Ok(Lease { work, token: LeaseToken::from(row.try_get::<Uuid, _>("token")?) })
        };
        let joins_open = rows.first().map_or(Ok(false), |row| row.try_get("joins_open"));
        let held: sqlx::Result<_> = rows.iter().map(lease).collect();
        Ok(Fenced { held: held.map_err(classify)?, joins_open: joins_open.map_err(classify)? })
    }

    async fn carry_out(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        items: &[&(Lease, Settlement)],
        now: Timestamp,
    ) -> Result<()> {
        let sql = self.sql();
        let is_done = |item: &&(Lease, Settlement)| matches!(item.1, Settlement::Done);
        let (done, others): (Vec<_>, Vec<_>) = items.iter().copied().partition(is_done);
        let done: Vec<_> = done.iter().map(|(lease, _)| lease.work.seq()).collect();
        self.finish(conn, owner, &done, now).await?;
        if others.is_empty() {
            return Ok(());
        }
        let any = |which: fn(&Settlement) -> bool| others.iter().any(|(_, s)| which(s));
        let orders = others.iter().map(|(lease, settlement)| order(*lease, settlement, now));
        let orders = Orders { json: Value::from_iter(orders).to_string(), owner, now };
        if any(is_counted) {
            orders.run(conn, &sql.settle_attempts).await?;
        }
        let dead = others.iter().filter(|(_, s)| matches!(s, Settlement::Dead { .. }));
        let dead: Vec<_> = dead.map(|(lease, _)| lease.work.seq()).collect();
        if !dead.is_empty() {
            self.halt(conn, &dead).await?;
            orders.run(conn, &sql.settle_dead).await?;
            self.run_on(conn, &sql.unqueue, &dead).await?;
        }
        if any(|s| matches!(s, Settlement::Retry { .. })) {
            orders.run(conn, &sql.settle_park).await?;
        }
        if any(|s| matches!(s, Settlement::Retry { .. } | Settlement::Release)) {
            orders.run_plainly(conn, &sql.settle_keep).await?;
        }
        if any(|s| matches!(s, Settlement::Retry { .. })) {
            orders.run_plainly(conn, &sql.settle_leave).await?;
        }
        Ok(())
    }

    /// Nearly all that is ever settled, therefore by its places alone.
    async fn finish(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        done: &[i64],
        now: Timestamp,
    ) -> Result<()> {
        if done.is_empty() {
            return Ok(());
        }
        if self.inner.config.keep_done {
            let places = Orders { json: json!(done).to_string(), owner, now };
            places.run(conn, &self.sql().settle_done).await?;
        } else {
            self.forget(conn, done, now).await?;
        }
        self.run_on(conn, &self.sql().unqueue, done).await
    }
}

/// Which of the leases stand, and whether there is a join to count them for.
struct Fenced {
    held: HashSet<Lease>,
    joins_open: bool,
}

/// The state that it ends in, if it does.
fn ended_as(settlement: &Settlement) -> Option<i16> {
    match settlement {
        Settlement::Done => Some(DONE),
        Settlement::Dead { .. } => Some(DEAD),
        Settlement::Retry { .. } | Settlement::Release => None,
    }
}

/// What each statement of a settle gets.
struct Orders {
    json: String,
    owner: OwnerToken,
    now: Timestamp,
}

impl Orders {
    async fn run(&self, conn: &mut SqliteConnection, statement: &SqlStr) -> Result<()> {
        sqlx::query(statement.clone())
            .bind(&self.json)
            .bind(self.now.as_micros())
            .bind(self.owner.as_uuid())
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// For statements that need neither time nor owner.
    async fn run_plainly(&self, conn: &mut SqliteConnection, statement: &SqlStr) -> Result<()> {
        let query = sqlx::query(statement.clone()).bind(&self.json);
        query.execute(conn).await.map_err(classify)?;
        Ok(())
    }
}

fn is_counted(settlement: &Settlement) -> bool {
    match settlement {
        Settlement::Done | Settlement::Release => false,
        Settlement::Retry { counted, .. } | Settlement::Dead { counted, .. } => *counted,
    }
}

/// One settlement as SQL reads it: a death has a reason, a wait has a time, a release has neither.
fn order(lease: Lease, settlement: &Settlement, now: Timestamp) -> Value {
    let seq = lease.work.seq();
    let counted = u8::from(is_counted(settlement));
    match settlement {
        Settlement::Done | Settlement::Release => json!({ "seq": seq, "counted": 0 }),
        Settlement::Retry { delay, error, .. } => {
            let wake_at = now.saturating_add(*delay).as_micros();
            json!({ "seq": seq, "wake_at": wake_at, "counted": counted, "error": error })
        }
        Settlement::Dead { reason, error, .. } => json!({
            "seq": seq,
            "reason": reason.code(),
            "counted": counted,
            "error": error,
        }),
    }
}
