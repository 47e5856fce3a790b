//! Settling, renewing, reaping, purging.

use std::collections::HashSet;
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{Purge, Purged, Reaped, Settled, Store};
use postroom_core::{Lease, LeaseToken, OwnerToken, Result, WorkId, micros};
use serde_json::{Value, json};
use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlRow};
use sqlx::query::Query;
use sqlx::{MySql, Row};
use uuid::Uuid;

use super::MySqlStore;
use super::classify::classify;
use super::row::{counter, flag};
use super::session::{Purpose, broken};
use super::transaction::require_transaction;
use crate::row::kind;

impl MySqlStore {
    pub(super) async fn settle_items(
        &self,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
    ) -> Result<Settled> {
        let leases: Vec<_> = items.iter().map(|(lease, _)| *lease).collect();
        let rows = self.engine_rows("settle", self.settle_query(owner, items)).await?;
        let settled = applied(&leases, &rows)?;
        self.wake_for_joins(&rows)?;
        let released = items.iter().filter(|(_, settlement)| *settlement == Settlement::Release);
        if let Some(first) = released.map(|(lease, _)| lease.work.seq()).min() {
            self.floor.lower(first);
        }
        Ok(settled)
    }

    /// In somebody else's transaction; whether the lease was still held.
    pub(super) async fn settle_on(
        &self,
        conn: &mut MySqlConnection,
        owner: OwnerToken,
        lease: Lease,
    ) -> Result<bool> {
        // Outside one the procedure would commit by itself.
        require_transaction(conn).await?;
        let query = self.settle_query(owner, &[(lease, Settlement::Done)]);
        let rows = query.fetch_all(conn).await.map_err(|error| classify("settle", error))?;
        Ok(!rows.is_empty())
    }

    fn settle_query(
        &self,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
    ) -> Query<'static, MySql, MySqlArguments> {
        let items: Vec<_> =
            items.iter().map(|(lease, settlement)| item(*lease, settlement)).collect();
        self.query(&self.sql.settle)
            .bind(self.now())
            .bind(owner.as_uuid())
            .bind(Value::from(items).to_string())
            .bind(self.keep_done)
            .bind(self.halt)
    }

    /// The end of a join publishes into the outbox.
    fn wake_for_joins(&self, rows: &[MySqlRow]) -> Result<()> {
        let Some(row) = rows.first() else { return Ok(()) };
        if counter(row, "joins_ended").map_err(|error| classify("settle", error))? > 0 {
            self.outbox_local.wake();
        }
        Ok(())
    }

    pub(super) async fn renew_leases(
        &self,
        owner: OwnerToken,
        leases: &[Lease],
        lease: Duration,
    ) -> Result<Settled> {
        let items: Vec<_> =
            leases.iter().map(|lease| json!([lease.work.seq(), token(*lease)])).collect();
        let query = self.query(&self.sql.renew).bind(self.now()).bind(owner.as_uuid());
        let query = query.bind(Value::from(items).to_string()).bind(micros(lease));
        applied(leases, &self.rows_for(Purpose::Renew, "renew", query).await?)
    }

    pub(super) async fn give_back_slots(&self, owner: OwnerToken) -> Result<()> {
        let query = self.query(&self.sql.leave).bind(owner.as_uuid());
        self.engine_rows("leave", query).await?;
        // Others may take what lies in them.
        self.wake();
        Ok(())
    }

    pub(super) async fn reap_chunk(&self, limit: u32, max_attempts: u32) -> Result<Reaped> {
        let query = self.query(&self.sql.reap).bind(self.now()).bind(limit).bind(max_attempts);
        let rows = self.engine_rows("reap", query).await?;
        let row = rows.first().ok_or_else(|| broken("a row"))?;
        reaped(row).map_err(|error| classify("reap", error))
    }

    pub(super) async fn purge_chunk(&self, purge: &Purge) -> Result<Purged> {
        let mut purged = Purged::default();
        if purge.done.is_some() || purge.dead.is_some() {
            let query = self.query(&self.sql.purge).bind(self.now());
            let query = query.bind(purge.done.map(micros)).bind(purge.dead.map(micros));
            let rows = self.engine_rows("purge", query.bind(purge.limit)).await?;
            (purged.messages, purged.more) = counted(&rows, "deleted")?;
        }
        if let Some(age) = purge.keys {
            purged.keys = self.purge_old_keys(age, purge.limit).await?;
            purged.more |= purged.keys >= purge.limit;
        }
        if let Some(age) = purge.done.map(micros) {
            let query = self.query(&self.sql.purge_joins).bind(self.now()).bind(age);
            let rows = self.engine_rows("purge", query.bind(purge.limit)).await?;
            let (joins, more) = counted(&rows, "joins")?;
            purged.joins = joins;
            purged.more |= more;
        }
        Ok(purged)
    }

    async fn purge_old_keys(&self, age: Duration, limit: u32) -> Result<u32> {
        let (now, age) = (self.now(), micros(age));
        let query = self.query(&self.sql.purge_keys).bind(now).bind(age).bind(now).bind(age);
        let query = query.bind(now).bind(age).bind(limit);
        let deleted = self.engine_changes("purge", query).await?;
        Ok(u32::try_from(deleted).unwrap_or(u32::MAX))
    }
}

fn reaped(row: &MySqlRow) -> sqlx::Result<Reaped> {
    Ok(Reaped {
        released: counter(row, "released")?,
        dead: counter(row, "dead")?,
        more: flag(row, "more")?,
    })
}

fn counted(rows: &[MySqlRow], column: &str) -> Result<(u32, bool)> {
    let row = rows.first().ok_or_else(|| broken("a row"))?;
    let read = || Ok((counter(row, column)?, flag(row, "more")?));
    read().map_err(|error| classify("purge", error))
}

/// The answer, from the rows that were touched.
fn applied(leases: &[Lease], rows: &[MySqlRow]) -> Result<Settled> {
    let mut touched = HashSet::with_capacity(rows.len());
    for row in rows {
        let read = || Ok((row.try_get::<i64, _>("seq")?, row.try_get::<Uuid, _>("token")?));
        let (seq, token) = read().map_err(|error| classify("settle", error))?;
        touched.insert(Lease { work: WorkId::new(seq), token: LeaseToken::from(token) });
    }
    let lost: Vec<_> = leases.iter().copied().filter(|lease| !touched.contains(lease)).collect();
    Ok(Settled { applied: leases.len() - lost.len(), lost, unknown: Vec::new() })
}

fn token(lease: Lease) -> String {
    lease.token.as_uuid().simple().to_string()
}

/// An item as `settle_items` reads it.
fn item(lease: Lease, settlement: &Settlement) -> Value {
    let (kind, delay, counted, reason, error) = match settlement {
        Settlement::Done => (kind::DONE, 0, false, None, None),
        Settlement::Release => (kind::RELEASE, 0, false, None, None),
        Settlement::Retry { delay, counted, error } => {
            (kind::RETRY, micros(*delay), *counted, None, error.as_deref())
        }
        Settlement::Dead { reason, counted, error } => {
            (kind::DEAD, 0, *counted, Some(reason.code()), error.as_deref())
        }
    };
    json!([lease.work.seq(), token(lease), kind, delay, i32::from(counted), reason, error])
}
