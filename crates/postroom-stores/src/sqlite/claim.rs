//! Claiming: read the candidates in order, decide in Rust, write in bulk. All in one transaction.

use std::collections::HashMap;

use postroom_core::lifecycle::{self, DeadReason};
use postroom_core::store::{Claim, Claimed, WorkItem};
use postroom_core::{Lease, LeaseToken, OwnerToken, Result, Timestamp, WorkId};
use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, SqlStr};
use uuid::Uuid;

use super::admin::{stored_message, timestamp};
use super::classify::classify;
use super::{SqliteStore, commit};

struct Candidate {
    seq: i64,
    parked: bool,
    suspect: bool,
    /// Whose lease ran out, if one did.
    lost_by: Option<Uuid>,
    attempts: u32,
    lost: u32,
    expires_at: Option<i64>,
}

/// The terms of one claim.
struct Terms {
    owner: OwnerToken,
    token: LeaseToken,
    until: Timestamp,
    now: Timestamp,
    max_attempts: u32,
}

impl SqliteStore {
    pub(super) async fn do_claim(&self, claim: &Claim) -> Result<Claimed> {
        let mut tx = self.begin_write().await?;
        let now = self.now();
        let terms = Terms {
            owner: claim.owner(),
            token: LeaseToken::random(),
            until: now.saturating_add(claim.lease()),
            now,
            max_attempts: claim.attempts_limit(),
        };
        let picked = choose(self.candidates(&mut tx, claim, now).await?, claim);
        if picked.is_empty() {
            // Nothing was written, so there is nothing to commit.
            return Ok(Claimed::default());
        }
        let claimed = self.lease(&mut tx, picked, &terms).await?;
        commit(tx).await?;
        Ok(claimed)
    }

    async fn candidates(
        &self,
        conn: &mut SqliteConnection,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Vec<Candidate>> {
        let rows = sqlx::query(self.sql().claim.clone())
            .bind(now.as_micros())
            .bind(claim.batch())
            .bind(claim.max_suspects())
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        rows.iter().map(|row| candidate(row).map_err(classify)).collect()
    }

    async fn lease(
        &self,
        conn: &mut SqliteConnection,
        picked: Vec<Candidate>,
        terms: &Terms,
    ) -> Result<Claimed> {
        let (mut plain, mut unparked) = (Vec::new(), Vec::new());
        let mut leased = Vec::with_capacity(picked.len());
        let mut dead = 0;
        for mut row in picked {
            let reason = self.count_lost_lease(conn, &mut row, terms).await?;
            let expired = row.expires_at.is_some_and(|at| at <= terms.now.as_micros());
            if let Some(reason) = expired.then_some(DeadReason::Expired).or(reason) {
                let by = Some(terms.owner);
                self.bury(conn, &row.counters(), row.parked, reason, by, terms.now).await?;
                dead += 1;
                continue;
            }
            match (row.parked, row.lost_by) {
                (true, _) => unparked.push(row.seq),
                (false, None) => plain.push(row.seq),
                (false, Some(_)) => self.take_over(conn, &row, terms).await?,
            }
            leased.push(row);
        }
        self.grant(conn, &self.sql().claim_lease, &plain, terms).await?;
        self.grant(conn, &self.sql().claim_unpark, &unparked, terms).await?;
        self.delete(conn, &self.sql().claim_unparked, &unparked).await?;
        let (items, broken) = self.items(conn, leased, terms).await?;
        for row in &broken {
            let (reason, by) = (DeadReason::Undecodable, Some(terms.owner));
            self.bury(conn, row, false, reason, by, terms.now).await?;
        }
        Ok(Claimed { items, dead: dead + broken.len() as u32 })
    }

    /// Counts the lease that ran out, if one did; a reason means that it was once too often.
    async fn count_lost_lease(
        &self,
        conn: &mut SqliteConnection,
        row: &mut Candidate,
        terms: &Terms,
    ) -> Result<Option<DeadReason>> {
        let Some(by) = row.lost_by else { return Ok(None) };
        let after = lifecycle::after_lost_lease(row.attempts, row.lost, terms.max_attempts);
        (row.attempts, row.lost) = (after.attempts, after.lost);
        self.record_lost_lease(conn, &row.counters(), by, terms.now).await?;
        Ok(after.dead.then_some(DeadReason::LostLeases))
    }

    async fn take_over(
        &self,
        conn: &mut SqliteConnection,
        row: &Candidate,
        terms: &Terms,
    ) -> Result<()> {
        sqlx::query(self.sql().claim_takeover.clone())
            .bind(row.seq)
            .bind(terms.token.as_uuid())
            .bind(terms.owner.as_uuid())
            .bind(terms.until.as_micros())
            .bind(row.attempts)
            .bind(row.lost)
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    async fn grant(
        &self,
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        seqs: &[i64],
        terms: &Terms,
    ) -> Result<()> {
        if seqs.is_empty() {
            return Ok(());
        }
        sqlx::query(statement.clone())
            .bind(json!(seqs).to_string())
            .bind(terms.token.as_uuid())
            .bind(terms.owner.as_uuid())
            .bind(terms.until.as_micros())
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// The messages of leased rows, in claim order; rows that do not decode come back apart.
    async fn items(
        &self,
        conn: &mut SqliteConnection,
        leased: Vec<Candidate>,
        terms: &Terms,
    ) -> Result<(Vec<WorkItem>, Vec<Counters>)> {
        let seqs: Vec<_> = leased.iter().map(|row| row.seq).collect();
        let rows = sqlx::query(self.sql().claim_messages.clone())
            .bind(json!(seqs).to_string())
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        let mut by_seq: HashMap<i64, SqliteRow> = HashMap::with_capacity(rows.len());
        for row in rows {
            by_seq.insert(row.try_get("seq").map_err(classify)?, row);
        }
        let (mut items, mut broken) = (Vec::with_capacity(leased.len()), Vec::new());
        for row in leased {
            match by_seq.get(&row.seq).and_then(|message| item(message, &row, terms)) {
                Some(item) => items.push(item),
                None => broken.push(row.counters()),
            }
        }
        Ok((items, broken))
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

/// The first of the candidates, up to the batch, with no more suspects than asked for.
fn choose(candidates: Vec<Candidate>, claim: &Claim) -> Vec<Candidate> {
    let mut suspects = claim.max_suspects();
    let allowed = candidates.into_iter().filter(|row| {
        if !row.suspect {
            return true;
        }
        let allowed = suspects > 0;
        suspects = suspects.saturating_sub(1);
        allowed
    });
    allowed.take(claim.batch() as usize).collect()
}

fn candidate(row: &SqliteRow) -> sqlx::Result<Candidate> {
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

fn item(message: &SqliteRow, row: &Candidate, terms: &Terms) -> Option<WorkItem> {
    Some(WorkItem {
        lease: Lease { work: WorkId::new(row.seq), token: terms.token },
        message: stored_message(message).ok()?.decode().ok()?,
        attempts: row.attempts,
        lost: row.lost,
        created_at: timestamp(message, "created_at").ok()?,
        locked_until: terms.until,
    })
}
