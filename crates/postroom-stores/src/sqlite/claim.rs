//! Claiming: read the candidates in order, decide in Rust, write in bulk. All in one transaction.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use postroom_core::lifecycle::{self, DeadReason};
use postroom_core::store::{Claim, Claimed, Paused, Store, WorkItem};
use postroom_core::{Lease, LeaseToken, Message, Result, Timestamp, WorkId};
use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, SqlStr};
use uuid::Uuid;

use super::admin::{stored_message, timestamp};
use super::classify::classify;
use super::control::paused;
use super::{SqliteStore, commit};

/// How often a claim that could lease nothing goes on with what waits to be taken in.
const MAX_ROUNDS: usize = 10;

/// A row that may be leased.
pub(super) struct Candidate {
    pub(super) seq: i64,
    pub(super) parked: bool,
    pub(super) suspect: bool,
    /// Whose lease ran out, if one did.
    pub(super) lost_by: Option<Uuid>,
    pub(super) attempts: u32,
    pub(super) lost: u32,
    pub(super) expires_at: Option<i64>,
}

/// A claim at work.
pub(super) struct Taking<'a> {
    pub(super) claim: &'a Claim,
    /// Topics of which nothing is taken: the claim's own, and paused ones.
    left_out: Vec<i64>,
    pub(super) now: Timestamp,
    pub(super) room: u32,
    pub(super) suspects: u32,
    token: LeaseToken,
    claimed: Claimed,
    /// What is still to be written: rows of the queue by the end of their lease, and parked ones.
    ready: BTreeMap<Timestamp, Vec<i64>>,
    parked: BTreeMap<Timestamp, Vec<i64>>,
}

impl<'a> Taking<'a> {
    fn new(claim: &'a Claim, paused: &Paused, now: Timestamp) -> Self {
        Self {
            claim,
            left_out: [claim.excluded_topics(), &paused.topics].concat(),
            now,
            room: claim.batch(),
            suspects: claim.max_suspects(),
            token: LeaseToken::random(),
            claimed: Claimed::default(),
            ready: BTreeMap::new(),
            parked: BTreeMap::new(),
        }
    }

    /// When a lease that begins now ends.
    pub(super) fn until(&self) -> Timestamp {
        self.now.saturating_add(self.claim.lease())
    }

    pub(super) fn excludes(&self, topic_hash: i64) -> bool {
        self.left_out.contains(&topic_hash)
    }

    /// Those topics for SQL; none when there are none.
    pub(super) fn left_out(&self) -> Option<String> {
        (!self.left_out.is_empty()).then(|| json!(self.left_out).to_string())
    }

    pub(super) fn allow_suspect(&mut self) -> bool {
        let allowed = self.suspects > 0;
        self.suspects = self.suspects.saturating_sub(1);
        allowed
    }
}

/// The messages of candidates by their place; one that does not decode is missing.
pub(super) type Messages = HashMap<i64, (Message, Timestamp)>;

impl SqliteStore {
    pub(super) async fn do_claim(&self, claim: &Claim) -> Result<Claimed> {
        let mut dead = 0;
        for _ in 0..MAX_ROUNDS {
            let (mut claimed, more_incoming) = self.claim_once(claim).await?;
            dead += claimed.dead;
            if !more_incoming || !claimed.items.is_empty() {
                claimed.dead = dead;
                return Ok(claimed);
            }
        }
        Ok(Claimed { dead, ..Claimed::default() })
    }

    /// A claim, and whether it left something that waits to be taken in.
    async fn claim_once(&self, claim: &Claim) -> Result<(Claimed, bool)> {
        let mut tx = self.begin_write().await?;
        let now = self.now();
        let incoming = self.take_in(&mut tx, claim.owner(), now).await?;
        let paused = paused(self.sql(), &mut tx).await?;
        let mut taking = Taking::new(claim, &paused, now);
        taking.claimed.dead = incoming.dead;
        let may_have_ordered = claim.wants_ordered() && !paused.all && !incoming.more;
        let has_ordered = may_have_ordered && self.has_ordered_work(&mut tx, now).await?;
        let ordered_first = claim.wants_ordered() && self.take_turn(has_ordered);
        if has_ordered && ordered_first {
            self.claim_ordered(&mut tx, &mut taking).await?;
        }
        if taking.room > 0 && !paused.all {
            self.claim_unordered(&mut tx, &mut taking).await?;
        }
        if has_ordered && !ordered_first && taking.room > 0 {
            self.claim_ordered(&mut tx, &mut taking).await?;
        }
        commit(tx).await?;
        if incoming.more {
            self.wake();
        }
        Ok((taking.claimed, incoming.more))
    }

    pub(super) async fn look_for_due(&self) -> Result<Option<Duration>> {
        let now = self.now();
        let mut conn = self.inner.reader.acquire().await.map_err(classify)?;
        let due = sqlx::query_scalar(self.sql().next_due.clone()).bind(now.as_micros());
        let due: Option<i64> = due.fetch_one(&mut *conn).await.map_err(classify)?;
        Ok(due.map(|due| Timestamp::from_micros(due).since(now)))
    }

    async fn claim_unordered(
        &self,
        conn: &mut SqliteConnection,
        taking: &mut Taking<'_>,
    ) -> Result<()> {
        if self.inner.config.fair_tenants {
            return self.claim_in_turn(conn, taking).await;
        }
        let picked = choose(self.candidates(conn, taking).await?, taking.room, taking);
        self.take_all(conn, picked, taking).await?;
        self.grant(conn, taking).await
    }

    /// Leases or buries what was chosen; [`grant`](Self::grant) is to be called.
    pub(super) async fn take_all(
        &self,
        conn: &mut SqliteConnection,
        picked: Vec<Candidate>,
        taking: &mut Taking<'_>,
    ) -> Result<()> {
        let mut messages = self.messages(conn, picked.iter().map(|row| row.seq)).await?;
        for row in picked {
            let (message, until) = (messages.remove(&row.seq), taking.until());
            self.take(conn, row, message, until, taking).await?;
        }
        Ok(())
    }

    async fn candidates(
        &self,
        conn: &mut SqliteConnection,
        taking: &Taking<'_>,
    ) -> Result<Vec<Candidate>> {
        let rows = sqlx::query(self.sql().claim.clone())
            .bind(taking.now.as_micros())
            .bind(taking.room)
            .bind(taking.suspects)
            .bind(taking.left_out())
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        rows.iter().map(|row| candidate(row).map_err(classify)).collect()
    }

    /// The messages of rows that are about to be leased.
    pub(super) async fn messages(
        &self,
        conn: &mut SqliteConnection,
        seqs: impl Iterator<Item = i64>,
    ) -> Result<Messages> {
        let seqs: Vec<_> = seqs.collect();
        if seqs.is_empty() {
            return Ok(Messages::new());
        }
        let rows = sqlx::query(self.sql().claim_messages.clone())
            .bind(json!(seqs).to_string())
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        let mut messages = Messages::with_capacity(rows.len());
        for row in rows {
            let seq = row.try_get("seq").map_err(classify)?;
            messages.extend(decode(&row).map(|decoded| (seq, decoded)));
        }
        Ok(messages)
    }

    /// Leases a row, once [`grant`](Self::grant) is called, or buries it; answers whether it lives.
    pub(super) async fn take(
        &self,
        conn: &mut SqliteConnection,
        mut row: Candidate,
        message: Option<(Message, Timestamp)>,
        until: Timestamp,
        taking: &mut Taking<'_>,
    ) -> Result<bool> {
        taking.room -= 1;
        let lost = self.count_lost_lease(conn, &mut row, taking).await?;
        let is_expired = row.expires_at.is_some_and(|at| at <= taking.now.as_micros());
        let reason = is_expired.then_some(DeadReason::Expired).or(lost);
        let reason = reason.or(message.is_none().then_some(DeadReason::Undecodable));
        let (Some((message, created_at)), None) = (message, reason) else {
            let (reason, by) = (reason.unwrap_or(DeadReason::Undecodable), taking.claim.owner());
            let item = row.counters();
            self.bury(conn, &item, row.parked, reason, Some(by), taking.now).await?;
            taking.claimed.dead += 1;
            return Ok(false);
        };
        match (row.parked, row.lost_by) {
            (true, _) => taking.parked.entry(until).or_default().push(row.seq),
            (false, None) => taking.ready.entry(until).or_default().push(row.seq),
            (false, Some(_)) => self.take_over(conn, &row, until, taking).await?,
        }
        taking.claimed.items.push(WorkItem {
            lease: Lease { work: WorkId::new(row.seq), token: taking.token },
            message,
            attempts: row.attempts,
            lost: row.lost,
            created_at,
            claimed_at: taking.now,
            locked_until: until,
        });
        Ok(true)
    }

    /// Counts the lease that ran out, if one did; a reason means that it was once too often.
    async fn count_lost_lease(
        &self,
        conn: &mut SqliteConnection,
        row: &mut Candidate,
        taking: &Taking<'_>,
    ) -> Result<Option<DeadReason>> {
        let Some(by) = row.lost_by else { return Ok(None) };
        let max_attempts = taking.claim.attempts_limit();
        let after = lifecycle::after_lost_lease(row.attempts, row.lost, max_attempts);
        (row.attempts, row.lost) = (after.attempts, after.lost);
        self.record_lost_lease(conn, &row.counters(), by, taking.now).await?;
        Ok(after.dead.then_some(DeadReason::LostLeases))
    }

    async fn take_over(
        &self,
        conn: &mut SqliteConnection,
        row: &Candidate,
        until: Timestamp,
        taking: &Taking<'_>,
    ) -> Result<()> {
        sqlx::query(self.sql().claim_takeover.clone())
            .bind(row.seq)
            .bind(taking.token.as_uuid())
            .bind(taking.claim.owner().as_uuid())
            .bind(until.as_micros())
            .bind(row.attempts)
            .bind(row.lost)
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// Writes the leases of what was taken.
    pub(super) async fn grant(
        &self,
        conn: &mut SqliteConnection,
        taking: &mut Taking<'_>,
    ) -> Result<()> {
        for (until, seqs) in std::mem::take(&mut taking.ready) {
            self.lease(conn, &self.sql().claim_lease, &seqs, until, taking).await?;
        }
        for (until, seqs) in std::mem::take(&mut taking.parked) {
            self.lease(conn, &self.sql().claim_unpark, &seqs, until, taking).await?;
            self.run_on(conn, &self.sql().claim_unparked, &seqs).await?;
        }
        Ok(())
    }

    async fn lease(
        &self,
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        seqs: &[i64],
        until: Timestamp,
        taking: &Taking<'_>,
    ) -> Result<()> {
        sqlx::query(statement.clone())
            .bind(json!(seqs).to_string())
            .bind(taking.token.as_uuid())
            .bind(taking.claim.owner().as_uuid())
            .bind(until.as_micros())
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }
}

/// A place and its counters: all that is needed to bury it.
pub(super) struct Counters {
    pub(super) seq: i64,
    pub(super) attempts: u32,
    pub(super) lost: u32,
}

impl Candidate {
    fn counters(&self) -> Counters {
        Counters { seq: self.seq, attempts: self.attempts, lost: self.lost }
    }
}

/// The first of the candidates, up to the room, with no more suspects than asked for.
pub(super) fn choose(
    candidates: Vec<Candidate>,
    room: u32,
    taking: &mut Taking<'_>,
) -> Vec<Candidate> {
    let allowed = candidates.into_iter().filter(|row| !row.suspect || taking.allow_suspect());
    allowed.take(room as usize).collect()
}

pub(super) fn candidate(row: &SqliteRow) -> sqlx::Result<Candidate> {
    Ok(Candidate {
        seq: row.try_get("seq")?,
        parked: row.try_get("parked")?,
        suspect: row.try_get("suspect")?,
        lost_by: row.try_get("lost_by")?,
        attempts: row.try_get("attempts")?,
        lost: row.try_get("lost")?,
        expires_at: row.try_get("expires_at")?,
    })
}

fn decode(row: &SqliteRow) -> Option<(Message, Timestamp)> {
    let message = stored_message(row).ok()?.decode().ok()?;
    Some((message, timestamp(row, "created_at").ok()?))
}
