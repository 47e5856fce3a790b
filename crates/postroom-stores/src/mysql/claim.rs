//! Claiming.

use std::time::Duration;

use postroom_core::store::order::Walk;
use postroom_core::store::{Claim, Claimed, WorkItem};
use postroom_core::{Lane, Lease, Result, micros};
use serde_json::json;
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::Query;
use sqlx::{MySql, Row};

use super::MySqlStore;
use super::classify::classify;
use super::row::{counter, flag, stored_message, time, time_or_none};
use super::session::broken;
use crate::floor::Start;
use crate::taking::{Summary, Takes, Taking, Turn};

pub(super) const WHAT: &str = "claim";

const IDENTITY: &str = "identity";

impl MySqlStore {
    pub(super) async fn claim_batch(&self, claim: &Claim) -> Result<Claimed> {
        let mut taking = Taking::new(claim);
        taking.take_from(self).await?;
        let mut lost = 0;
        if !taking.refused.is_empty() {
            // When this fails the rows come back with their leases: no reason to lose the others.
            let settled = self.settle_items(claim.owner(), &taking.refused).await;
            lost = settled.map_or(usize::MAX, |settled| settled.lost.len());
        }
        Ok(taking.finish(lost))
    }
}

impl Takes for MySqlStore {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    async fn take_unordered(&self, taking: &mut Taking<'_>) -> Result<bool> {
        if self.fair_tenants {
            return self.take_in_turn(taking).await;
        }
        let start = self.floor.start();
        let bounded = start.is_bounded();
        let mut rows = self.look(taking, start).await?;
        let found = rows.first().map_or(Ok(0), |row| counter(row, "taken"));
        if bounded
            && found.map_err(|error| classify(WHAT, error))? == 0
            && let Some(start) = self.floor.start_at_the_beginning()
        {
            // Nothing above the floor: what lies below is all there is, and must not be hidden.
            rows = self.look(taking, start).await?;
        }
        let ordered_work = rows.first().map_or(Ok(false), |row| flag(row, "ordered_work"));
        add(taking, &rows, false).map_err(|error| classify(WHAT, error))?;
        ordered_work.map_err(|error| classify(WHAT, error))
    }

    /// Stretch by stretch, until there is no room or no further key.
    async fn take_ordered(&self, taking: &mut Taking<'_>) -> Result<()> {
        let mut walk = Walk::behind(*self.turn.last_key());
        loop {
            let rows = self.ordered_rows(taking, walk.after()).await?;
            let Some(first) = rows.first() else { return Ok(()) };
            let read = |error| classify(WHAT, error);
            let last = last_key(first).map_err(read)?;
            add(taking, &rows, true).map_err(read)?;
            let more = walk.go_on(last);
            *self.turn.last_key() = walk.cursor(taking.room);
            if !more || taking.room == 0 {
                return Ok(());
            }
        }
    }
}

impl MySqlStore {
    /// One claim of rows without a key, from `start` on: a summary and the items.
    async fn look(&self, taking: &Taking<'_>, start: Start) -> Result<Vec<MySqlRow>> {
        let query = bind(taking, self.query(&self.sql.claim), self.now());
        let query = query.bind(start.seq()).bind(list(taking.claim.excluded_topics()));
        let rows = self.engine_rows(WHAT, query).await?;
        let read = |error| classify(WHAT, error);
        let Some(first) = rows.first() else { return Ok(rows) };
        let passed = first.try_get("passed").map_err(read)?;
        // Suspects come in small numbers: where there was one there may be more.
        let again = counter(first, "suspects").map_err(read)? > 0;
        self.floor.finish(start, passed, again);
        Ok(rows)
    }

    async fn ordered_rows(
        &self,
        taking: &Taking<'_>,
        after: Option<Lane>,
    ) -> Result<Vec<MySqlRow>> {
        let query = bind(taking, self.query(&self.sql.claim_ordered), self.now())
            .bind(after.map(|lane| lane.slot))
            .bind(after.map(|lane| lane.key_hash))
            .bind(taking.claim.held_keys().map(texts))
            .bind(list(taking.claim.excluded_topics()))
            .bind(self.halt);
        self.engine_rows(WHAT, query).await
    }

    pub(super) async fn find_identity(&self) -> Result<String> {
        let rows = self.engine_rows(IDENTITY, self.query(&self.sql.identity)).await?;
        let row = rows.first().ok_or_else(|| broken("its identity"))?;
        let database: String =
            row.try_get("identity").map_err(|error| classify(IDENTITY, error))?;
        Ok(format!("{database} {}", self.names.label()))
    }

    pub(super) async fn look_for_due(&self) -> Result<Option<Duration>> {
        let rows = self.engine_rows("due", self.query(&self.sql.next_due).bind(self.now())).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let read = || -> sqlx::Result<_> {
            let columns = ["due_plain", "due_ordered", "due_others"];
            let due: sqlx::Result<Vec<_>> =
                columns.into_iter().map(|column| time_or_none(row, column)).collect();
            Ok((due?.into_iter().flatten().min(), time(row, "now")?))
        };
        let (due, now) = read().map_err(|error| classify("due", error))?;
        Ok(due.map(|due| due.since(now)))
    }
}

type MySqlQuery = Query<'static, MySql, MySqlArguments>;

/// The parameters that all kinds of claims begin with.
pub(super) fn bind(taking: &Taking<'_>, query: MySqlQuery, now: Option<i64>) -> MySqlQuery {
    query
        .bind(now)
        .bind(taking.claim.owner().as_uuid())
        .bind(taking.token.as_uuid())
        .bind(micros(taking.claim.lease()))
        .bind(taking.room)
        .bind(taking.suspects)
        .bind(taking.claim.attempts_limit())
}

/// Numbers for SQL; none when there are none.
pub(super) fn list(numbers: &[i64]) -> Option<String> {
    (!numbers.is_empty()).then(|| texts(numbers))
}

/// As texts: MariaDB compares numbers in JSON as floating point.
fn texts(numbers: &[i64]) -> String {
    json!(numbers.iter().map(i64::to_string).collect::<Vec<_>>()).to_string()
}

pub(super) fn add(taking: &mut Taking<'_>, rows: &[MySqlRow], ordered: bool) -> sqlx::Result<()> {
    let Some((first, items)) = rows.split_first() else { return Ok(()) };
    taking.count(Summary {
        taken: counter(first, "taken")?,
        suspects: counter(first, "suspects")?,
        dead: counter(first, "dead")?,
    });
    for row in items {
        let key = if ordered { Some(row.try_get("item_key")?) } else { None };
        taking.add(row.try_get("seq")?, key, |lease| work_item(row, lease));
    }
    Ok(())
}

/// The key at which a stretch ended; none when there was no further one.
fn last_key(row: &MySqlRow) -> sqlx::Result<Option<Lane>> {
    let slot: Option<i16> = row.try_get("last_slot")?;
    let key_hash: Option<i64> = row.try_get("last_key")?;
    Ok(slot.zip(key_hash).map(|(slot, key_hash)| Lane { slot, key_hash }))
}

fn work_item(row: &MySqlRow, lease: Lease) -> Result<WorkItem> {
    let read = |error| classify("read a message", error);
    Ok(WorkItem {
        lease,
        message: stored_message(row).map_err(read)?.decode()?,
        attempts: counter(row, "attempts").map_err(read)?,
        lost: counter(row, "lost").map_err(read)?,
        created_at: time(row, "created_at").map_err(read)?,
        claimed_at: time(row, "claimed_at").map_err(read)?,
        locked_until: time(row, "locked_until").map_err(read)?,
    })
}
