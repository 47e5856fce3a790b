//! Settling, renewing, reaping, purging.

use std::collections::HashSet;
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{Purge, Purged, Reaped, Settled, Store};
use postroom_core::{Lease, LeaseToken, OwnerToken, Result, WorkId, micros};
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use super::PgStore;
use super::claim::integer;
use super::classify::classify;
use super::row::small_count;
use super::session::{Purpose, broken};
use crate::row::kind;

impl PgStore {
    pub(super) async fn settle_items(
        &self,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
    ) -> Result<Settled> {
        let leases: Vec<_> = items.iter().map(|(lease, _)| *lease).collect();
        let (query, touched) = self.settle_query(owner, items);
        let settled = applied(&leases, touched(&self.engine_rows("settle", query).await?)?);
        let released = items.iter().filter(|(_, settlement)| *settlement == Settlement::Release);
        if let Some(first) = released.map(|(lease, _)| lease.work.seq()).min() {
            self.floor.lower(first);
        }
        Ok(settled)
    }

    /// In somebody else's transaction; whether the lease was still held.
    pub(super) async fn settle_on(
        &self,
        conn: &mut PgConnection,
        owner: OwnerToken,
        lease: Lease,
    ) -> Result<bool> {
        let (query, touched) = self.settle_query(owner, &[(lease, Settlement::Done)]);
        let rows = query.fetch_all(conn).await.map_err(|error| classify("settle", error))?;
        Ok(!touched(&rows)?.is_empty())
    }

    /// The statement, and how its answer is read.
    fn settle_query(
        &self,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
    ) -> (Query<'static, Postgres, PgArguments>, Touched) {
        let columns = Columns::of(items);
        let all_done = columns.kinds.iter().all(|kind| *kind == kind::DONE);
        if all_done {
            let sql = if self.keep_done { &self.sql.settle_done } else { &self.sql.settle_gone };
            let query = self.query(sql).bind(self.now()).bind(owner.as_uuid());
            return (query.bind(columns.seqs).bind(columns.tokens), in_arrays);
        }
        let query = self
            .query(&self.sql.settle)
            .bind(self.now())
            .bind(owner.as_uuid())
            .bind(columns.seqs)
            .bind(columns.tokens)
            .bind(columns.kinds)
            .bind(columns.delays)
            .bind(columns.counted)
            .bind(columns.reasons)
            .bind(columns.errors)
            .bind(self.keep_done)
            .bind(self.halt);
        (query, row_by_row)
    }

    pub(super) async fn renew_leases(
        &self,
        owner: OwnerToken,
        leases: &[Lease],
        lease: Duration,
    ) -> Result<Settled> {
        let (seqs, tokens) = split(leases);
        let query = self.query(&self.sql.renew);
        let query = query.bind(self.now()).bind(owner.as_uuid()).bind(seqs).bind(tokens);
        let query = query.bind(micros(lease));
        let rows = self.rows_for(Purpose::Renew, "renew", query).await?;
        Ok(applied(leases, row_by_row(&rows)?))
    }

    pub(super) async fn give_back_slots(&self, owner: OwnerToken) -> Result<()> {
        let query = self.query(&self.sql.leave).bind(owner.as_uuid());
        self.engine_rows("leave", query).await?;
        // Others may take what lies in them.
        self.wake();
        Ok(())
    }

    pub(super) async fn reap_chunk(&self, limit: u32, max_attempts: u32) -> Result<Reaped> {
        let query = self.query(&self.sql.reap).bind(self.now());
        let query = query.bind(integer(limit)).bind(integer(max_attempts));
        let rows = self.rows_for(Purpose::Claim, "reap", query).await?;
        let row = rows.first().ok_or_else(|| broken("a row"))?;
        reaped(row).map_err(|error| classify("reap", error))
    }

    pub(super) async fn purge_chunk(&self, purge: &Purge) -> Result<Purged> {
        let mut purged = Purged::default();
        if purge.done.is_some() || purge.dead.is_some() {
            let query = self.query(&self.sql.purge).bind(self.now());
            let query = query.bind(purge.done.map(micros)).bind(purge.dead.map(micros));
            let rows = self.engine_rows("purge", query.bind(integer(purge.limit))).await?;
            (purged.messages, purged.more) = counted(&rows, "messages")?;
        }
        if let Some(age) = purge.keys {
            let query = self.query(&self.sql.purge_keys).bind(self.now());
            let query = query.bind(micros(age)).bind(integer(purge.limit));
            let (keys, more) = counted(&self.engine_rows("purge", query).await?, "keys")?;
            purged.keys = keys;
            purged.more |= more;
        }
        self.purge_old_joins(purge, &mut purged).await?;
        Ok(purged)
    }
}

fn reaped(row: &PgRow) -> sqlx::Result<Reaped> {
    Ok(Reaped {
        released: small_count(row, "released")?,
        dead: small_count(row, "dead")?,
        more: row.try_get("more")?,
    })
}

pub(super) fn counted(rows: &[PgRow], column: &str) -> Result<(u32, bool)> {
    let row = rows.first().ok_or_else(|| broken("a row"))?;
    let read = || Ok((small_count(row, column)?, row.try_get("more")?));
    read().map_err(|error| classify("purge", error))
}

fn split(leases: &[Lease]) -> (Vec<i64>, Vec<Uuid>) {
    leases.iter().map(|lease| (lease.work.seq(), lease.token.as_uuid())).unzip()
}

/// Reads what a statement touched.
type Touched = fn(&[PgRow]) -> Result<Vec<Lease>>;

fn row_by_row(rows: &[PgRow]) -> Result<Vec<Lease>> {
    let read = |row: &PgRow| Ok(lease(row.try_get("seq")?, row.try_get("token")?));
    let leases: sqlx::Result<_> = rows.iter().map(read).collect();
    leases.map_err(|error| classify("settle", error))
}

/// Nothing in place of an array is an empty one.
fn in_arrays(rows: &[PgRow]) -> Result<Vec<Lease>> {
    let row = rows.first().ok_or_else(|| broken("a row"))?;
    let read = || Ok((row.try_get("seqs")?, row.try_get("tokens")?));
    let (seqs, tokens): (Option<Vec<i64>>, Option<Vec<Uuid>>) =
        read().map_err(|error| classify("settle", error))?;
    let (seqs, tokens) = (seqs.unwrap_or_default(), tokens.unwrap_or_default());
    Ok(seqs.into_iter().zip(tokens).map(|(seq, token)| lease(seq, token)).collect())
}

fn lease(seq: i64, token: Uuid) -> Lease {
    Lease { work: WorkId::new(seq), token: LeaseToken::from(token) }
}

/// The answer. What was touched was asked for: when it is as much, it is all.
fn applied(leases: &[Lease], touched: Vec<Lease>) -> Settled {
    let mut lost = Vec::new();
    if touched.len() < leases.len() {
        let touched: HashSet<_> = touched.into_iter().collect();
        lost.extend(leases.iter().copied().filter(|lease| !touched.contains(lease)));
    }
    Settled { applied: leases.len() - lost.len(), lost, unknown: Vec::new() }
}

/// The parameters of `settle.sql`, an element per item.
#[derive(Default)]
struct Columns<'a> {
    seqs: Vec<i64>,
    tokens: Vec<Uuid>,
    kinds: Vec<i16>,
    delays: Vec<i64>,
    counted: Vec<bool>,
    reasons: Vec<Option<i16>>,
    errors: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(items: &'a [(Lease, Settlement)]) -> Self {
        let mut columns = Self::default();
        for (lease, settlement) in items {
            columns.seqs.push(lease.work.seq());
            columns.tokens.push(lease.token.as_uuid());
            columns.push(settlement);
        }
        columns
    }

    fn push(&mut self, settlement: &'a Settlement) {
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
        self.kinds.push(kind);
        self.delays.push(delay);
        self.counted.push(counted);
        self.reasons.push(reason);
        self.errors.push(error);
    }
}
