//! Claiming.

use std::time::Duration;

use postroom_core::store::order::Walk;
use postroom_core::store::tenants::{LOOKS, tenants_wanted};
use postroom_core::store::{Claim, Claimed, WorkItem};
use postroom_core::{Lane, Lease, Result, Timestamp, micros};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};

use super::PgStore;
use super::classify::classify;
use super::row::{claimed_message, counter, small_count, time};
use super::session::{Purpose, broken};
use super::time::PgTime;
use crate::floor::Start;
use crate::taking::{Summary, Takes, Taking, Turn};

pub(super) const WHAT: &str = "claim";

const IDENTITY: &str = "identity";

/// What is paused may change between two tries of a claim.
const TRIES: usize = 3;

impl PgStore {
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

impl Takes for PgStore {
    fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Takes rows without an ordering key. Answers whether there are others.
    async fn take_unordered(&self, taking: &mut Taking<'_>) -> Result<bool> {
        if self.is_paused().await? {
            return Ok(false);
        }
        if self.fair_tenants {
            return self.take_in_turn(taking).await;
        }
        let start = self.floor.start();
        let mut rows = match start.follows_others() {
            true => self.look_for_ready(taking, &start).await?,
            false => Vec::new(),
        };
        if !has_found(&rows)? {
            rows = self.look_well(taking, start).await?;
        }
        let read = |row: &PgRow| row.try_get("ordered_work");
        let ordered_work = rows.first().map_or(Ok(false), read);
        add(taking, &rows).map_err(|error| classify(WHAT, error))?;
        ordered_work.map_err(|error| classify(WHAT, error))
    }

    /// Takes the first rows of keys, stretch by stretch, until there is no room or no further key.
    async fn take_ordered(&self, taking: &mut Taking<'_>) -> Result<()> {
        let mut walk = Walk::behind(*self.turn.last_key());
        loop {
            let rows = self.ordered_rows(taking, walk.after()).await?;
            // There is nothing to walk along, or all of it is paused.
            let Some(first) = rows.first() else { return Ok(()) };
            let read = |error| classify(WHAT, error);
            let last = last_key(first).map_err(read)?;
            add(taking, &rows).map_err(read)?;
            let more = walk.go_on(last);
            *self.turn.last_key() = walk.cursor(taking.room);
            if !more || taking.room == 0 {
                return Ok(());
            }
        }
    }
}

impl PgStore {
    /// Takes rows of the common kind. Nothing when there are none, or when others have a say.
    async fn look_for_ready(&self, taking: &Taking<'_>, start: &Start) -> Result<Vec<PgRow>> {
        let believed = self.pauses.believed();
        let query = self
            .query(&self.sql.claim_ready)
            .bind(self.now())
            .bind(taking.claim.owner().as_uuid())
            .bind(taking.token.as_uuid())
            .bind(micros(taking.claim.lease()))
            .bind(integer(taking.room))
            .bind(start.seq())
            .bind(left_out(taking, &believed))
            .bind(believed);
        let rows = self.rows_for(Purpose::Claim, WHAT, query).await?;
        let first = rows.first().ok_or_else(|| broken("a row"))?;
        let read = || Ok((first.try_get("passed")?, first.try_get("is_plain")?));
        let (passed, is_plain): (_, bool) = read().map_err(|error| classify(WHAT, error))?;
        self.floor.finish_ready(passed, is_plain);
        Ok(rows)
    }

    /// Takes rows of all kinds, from `start` on, or of all there are where nothing was ready.
    async fn look_well(&self, taking: &Taking<'_>, start: Start) -> Result<Vec<PgRow>> {
        let start = match start.follows_others() {
            true => self.floor.start_at_the_beginning().unwrap_or(start),
            false => start,
        };
        let bounded = start.is_bounded();
        let rows = self.look(taking, start).await?;
        if bounded
            && !has_found(&rows)?
            && let Some(start) = self.floor.start_at_the_beginning()
        {
            // Nothing above the floor: what lies below is all there is, and must not be hidden.
            return self.look(taking, start).await;
        }
        Ok(rows)
    }

    /// One claim of rows without a key, from `start` on.
    async fn look(&self, taking: &Taking<'_>, start: Start) -> Result<Vec<PgRow>> {
        let rows = self.unpaused_rows(taking, Look::From(start.seq())).await?;
        let read = |error| classify(WHAT, error);
        let passed = rows.first().map_or(Ok(None), |row| row.try_get("passed")).map_err(read)?;
        let lost: Vec<Option<i32>> = rows
            .iter()
            .map(|row| row.try_get("lost"))
            .collect::<sqlx::Result<_>>()
            .map_err(read)?;
        // Suspects come in small numbers: where there was one there may be more.
        let again = lost.iter().flatten().any(|lost| *lost > 0);
        self.floor.finish(start, passed, again);
        Ok(rows)
    }

    /// A claim with what is paused right now. Nothing when the whole queue is, or when pauses
    /// change faster than they can be read.
    pub(super) async fn unpaused_rows(
        &self,
        taking: &Taking<'_>,
        look: Look,
    ) -> Result<Vec<PgRow>> {
        for _ in 0..TRIES {
            let believed = self.pauses.believed();
            if believed.contains(&None) {
                break;
            }
            let rows = self.unordered_rows(taking, look, &believed).await?;
            let paused = rows.first().map_or(Ok(Vec::new()), |row| row.try_get("paused"));
            let paused = paused.map_err(|error| classify(WHAT, error))?;
            if paused == believed {
                return Ok(rows);
            }
            self.pauses.learn(paused);
        }
        Ok(Vec::new())
    }

    async fn unordered_rows(
        &self,
        taking: &Taking<'_>,
        look: Look,
        paused: &[Option<i64>],
    ) -> Result<Vec<PgRow>> {
        let (statement, start) = match look {
            Look::From(seq) => (&self.sql.claim, seq),
            Look::Behind(tenant) => (&self.sql.claim_fair, tenant),
        };
        let query = bind(taking, self.query(statement), self.now()).bind(start);
        let query = query.bind(left_out(taking, paused)).bind(paused.to_vec());
        let query = match look {
            Look::From(_) => query,
            Look::Behind(_) => {
                query.bind(integer(tenants_wanted(taking.room))).bind(integer(LOOKS))
            }
        };
        self.rows_for(Purpose::Claim, WHAT, query).await
    }

    pub(super) async fn find_identity(&self) -> Result<String> {
        let ask = |sql| self.rows_for(Purpose::Claim, IDENTITY, self.query(sql));
        let by_server = ask(&self.sql.identity).await;
        let rows = match by_server {
            Err(error) if !error.is_transient() => ask(&self.sql.identity_by_address).await?,
            answer => answer?,
        };
        let row = rows.first().ok_or_else(|| broken("its identity"))?;
        let database: String =
            row.try_get("identity").map_err(|error| classify(IDENTITY, error))?;
        Ok(format!("{database} {}", self.names.label()))
    }

    pub(super) async fn look_for_due(&self) -> Result<Option<Duration>> {
        let query = self.query(&self.sql.next_due).bind(self.now());
        let rows = self.rows_for(Purpose::Claim, "due", query).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let read = |error| classify("due", error);
        let due: Option<PgTime> = row.try_get("due").map_err(read)?;
        let now = time(row, "now").map_err(read)?;
        Ok(due.map(|due| due.0.since(now)))
    }

    async fn ordered_rows(&self, taking: &Taking<'_>, after: Option<Lane>) -> Result<Vec<PgRow>> {
        let query = self.query(&self.sql.claim_ordered);
        let query = bind(taking, query, self.now())
            .bind(after.map(|lane| lane.slot))
            .bind(after.map(|lane| lane.key_hash))
            .bind(taking.claim.held_keys().map(<[i64]>::to_vec))
            .bind(taking.claim.excluded_topics().to_vec())
            .bind(self.halt)
            .bind(integer(taking.claim.most_held().max(taking.room)));
        self.rows_for(Purpose::Claim, WHAT, query).await
    }
}

/// The topics of which nothing is taken.
fn left_out(taking: &Taking<'_>, paused: &[Option<i64>]) -> Vec<i64> {
    let excluded = taking.claim.excluded_topics().iter().copied();
    excluded.chain(paused.iter().copied().flatten()).collect()
}

/// Where a claim of rows without a key begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    /// At this place.
    From(i64),
    /// With the tenant behind this one; all tenants take turns.
    Behind(i64),
}

type PgQuery = Query<'static, Postgres, PgArguments>;

/// The parameters that both kinds of claims begin with.
fn bind(taking: &Taking<'_>, query: PgQuery, now: Option<PgTime>) -> PgQuery {
    query
        .bind(now)
        .bind(taking.claim.owner().as_uuid())
        .bind(taking.token.as_uuid())
        .bind(micros(taking.claim.lease()))
        .bind(integer(taking.room))
        .bind(integer(taking.suspects))
        .bind(integer(taking.claim.attempts_limit()))
}

pub(super) fn add(taking: &mut Taking<'_>, rows: &[PgRow]) -> sqlx::Result<()> {
    let Some(first) = rows.first() else { return Ok(()) };
    taking.count(Summary {
        taken: small_count(first, "taken")?,
        suspects: small_count(first, "suspects")?,
        dead: small_count(first, "dead")?,
    });
    let leased = (time(first, "claimed_at")?, time(first, "locked_until")?);
    for row in rows {
        let Some(seq) = row.try_get("seq")? else { continue };
        // A claim of unordered rows has no such column.
        let key = row.try_get("key_hash").unwrap_or_default();
        taking.add(seq, key, |lease| work_item(row, lease, leased));
    }
    Ok(())
}

/// The key at which a stretch ended; none when there was no further one.
fn last_key(row: &PgRow) -> sqlx::Result<Option<Lane>> {
    let slot: Option<i16> = row.try_get("last_slot")?;
    let key_hash = row.try_get("last_key")?;
    Ok(slot.map(|slot| Lane { slot, key_hash }))
}

/// Whether a claim took anything, be it to make it dead.
fn has_found(rows: &[PgRow]) -> Result<bool> {
    let Some(first) = rows.first() else { return Ok(false) };
    Ok(small_count(first, "taken").map_err(|error| classify(WHAT, error))? > 0)
}

/// SQL's integers are signed; nothing that we count reaches their end.
pub(super) fn integer(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// `leased` is from when to when.
fn work_item(
    row: &PgRow,
    lease: Lease,
    (claimed_at, locked_until): (Timestamp, Timestamp),
) -> Result<WorkItem> {
    let read = |error| classify("read a message", error);
    Ok(WorkItem {
        lease,
        message: claimed_message(row).map_err(read)?.decode()?,
        attempts: counter(row, "attempts").map_err(read)?,
        lost: counter(row, "lost").map_err(read)?,
        created_at: time(row, "created_at").map_err(read)?,
        claimed_at,
        locked_until,
    })
}
