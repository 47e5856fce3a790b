//! Claims of ordered rows, by the rules of [`postroom_core::store::order`].
//!
//! One transaction writes at a time, so a slot is taken by reading and then writing it. Keys are
//! visited by searches in an index, and of each no more is read than its run.

use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

use postroom_core::store::order::{
    Slots, VISITS, Walk, fair_share, keys_wanted, renew_below, run_length,
};
use postroom_core::store::tenants::Rotation;
use postroom_core::{Lane, OwnerToken, Result, Timestamp};
use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, SqlStr};
use uuid::Uuid;

use super::claim::{Candidate, Messages, Taking};
use super::classify::classify;
use super::{SqliteStore, commit};

/// Where the claims of this store go on. It is a matter of fairness alone, so other processes have
/// their own, and a claim that fails may leave it moved.
#[derive(Debug, Default)]
pub(super) struct Turn {
    cursor: Option<Lane>,
    ordered_first: bool,
    rotation: Rotation,
}

impl Turn {
    /// The tenant behind which the next claim begins.
    pub(super) fn tenant(&self) -> i64 {
        self.rotation.after()
    }

    pub(super) fn go_on(&mut self, rotation: Rotation) {
        self.rotation = rotation;
    }
}

/// A key that was visited: its first row, and what else decides whether it is open.
struct Key {
    lane: Lane,
    /// Whether the first row is leased; then `locked_until` is the lease's end, else its next try.
    leased: bool,
    locked_until: Option<Timestamp>,
    lost: bool,
    topic_hash: i64,
    slot_until: Timestamp,
    halted: bool,
    held: bool,
}

/// A stretch of the walk: the open keys, and the last one that was visited, none at the end.
struct Visited {
    open: Vec<Key>,
    last: Option<Lane>,
}

/// How an owner stands among the others.
struct Standing {
    live_until: Option<Timestamp>,
    others: usize,
    mine: usize,
    first_end: Option<Timestamp>,
    free: bool,
}

// Fewer keys than this are not worth a statement: some of them may be closed.
const BLOCK: u32 = 16;

impl SqliteStore {
    pub(super) fn turn(&self) -> MutexGuard<'_, Turn> {
        self.inner.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether ordered rows come first this time. If there are any, that changes with each claim.
    pub(super) fn take_turn(&self, has_ordered: bool) -> bool {
        let mut turn = self.turn();
        let ordered_first = turn.ordered_first;
        turn.ordered_first = has_ordered && !ordered_first;
        ordered_first
    }

    /// Whether there is ordered work for anybody. What came due is not yet moved.
    pub(super) async fn has_ordered_work(
        &self,
        conn: &mut SqliteConnection,
        now: Timestamp,
    ) -> Result<bool> {
        let work = sqlx::query(self.sql().claim_work.clone()).bind(now.as_micros());
        let row = work.fetch_one(conn).await.map_err(classify)?;
        row.try_get("any").map_err(classify)
    }

    pub(super) async fn claim_ordered(
        &self,
        conn: &mut SqliteConnection,
        taking: &mut Taking<'_>,
    ) -> Result<()> {
        let last_slot = self.join(conn, taking).await?;
        let mut walk = Walk::behind(self.turn().cursor);
        loop {
            self.unpark_ordered(conn, taking).await?;
            let last = self.stretch(conn, walk.after(), last_slot, taking).await?;
            if !walk.go_on(last) || taking.room == 0 {
                break;
            }
        }
        self.turn().cursor = walk.cursor(taking.room);
        Ok(())
    }

    /// What came due takes its place, as ready: no more than a stretch has room for.
    async fn unpark_ordered(&self, conn: &mut SqliteConnection, taking: &Taking<'_>) -> Result<()> {
        let due: Vec<i64> = sqlx::query_scalar(self.sql().claim_due.clone())
            .bind(taking.now.as_micros())
            .bind(taking.room)
            .fetch_all(&mut *conn)
            .await
            .map_err(classify)?;
        if due.is_empty() {
            return Ok(());
        }
        sqlx::query(self.sql().claim_unpark.clone())
            .bind(json!(due).to_string())
            .bind(None::<Uuid>)
            .bind(None::<Uuid>)
            .bind(None::<i64>)
            .execute(&mut *conn)
            .await
            .map_err(classify)?;
        self.run_on(conn, &self.sql().claim_unparked, &due).await
    }

    /// Gives an owner its fair share of the slots. Answers with the last of them: what it has
    /// beyond that is to be given back, and nothing more is claimed there.
    async fn join(&self, conn: &mut SqliteConnection, taking: &Taking<'_>) -> Result<i16> {
        let (owner, now, renewed) = (taking.claim.owner(), taking.now, taking.until());
        let stale = now.saturating_add(renew_below(taking.claim.lease()));
        let standing = self.standing(conn, owner, now).await?;
        let mut live_until = standing.live_until.unwrap_or(now);
        if live_until < stale {
            live_until = renewed;
            self.sign_of_life(conn, &self.sql().node, owner, renewed).await?;
            let gone = sqlx::query(self.sql().node_gone.clone()).bind(now.as_micros());
            gone.execute(&mut *conn).await.map_err(classify)?;
        }
        let share = fair_share(standing.others + usize::from(live_until > now));
        let mut last = Lane::SLOTS - 1;
        if standing.mine > share {
            last = self.last_of_share(conn, owner, share, now).await?;
            self.free_slots(conn, owner, last).await?;
        } else if standing.mine < share && standing.free {
            let more = share - standing.mine;
            self.take_slots(conn, taking, more).await?;
        }
        if standing.first_end.is_some_and(|end| end < stale) {
            sqlx::query(self.sql().slots_renew.clone())
                .bind(owner.as_uuid())
                .bind(now.as_micros())
                .bind(renewed.as_micros())
                .bind(last)
                .bind(stale.as_micros())
                .execute(conn)
                .await
                .map_err(classify)?;
        }
        Ok(last)
    }

    async fn standing(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        now: Timestamp,
    ) -> Result<Standing> {
        let row = sqlx::query(self.sql().claim_slots.clone())
            .bind(owner.as_uuid())
            .bind(now.as_micros())
            .fetch_one(conn)
            .await
            .map_err(classify)?;
        standing(&row).map_err(classify)
    }

    async fn last_of_share(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        share: usize,
        now: Timestamp,
    ) -> Result<i16> {
        sqlx::query_scalar(self.sql().slots_last.clone())
            .bind(owner.as_uuid())
            .bind(now.as_micros())
            .bind(share as i64 - 1)
            .fetch_one(conn)
            .await
            .map_err(classify)
    }

    async fn take_slots(
        &self,
        conn: &mut SqliteConnection,
        taking: &Taking<'_>,
        more: usize,
    ) -> Result<()> {
        sqlx::query(self.sql().slots_take.clone())
            .bind(taking.claim.owner().as_uuid())
            .bind(taking.now.as_micros())
            .bind(taking.until().as_micros())
            .bind(more as i64)
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// Gives back the slots behind this one, but those in which the owner holds rows.
    async fn free_slots(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        behind: i16,
    ) -> Result<()> {
        let free = sqlx::query(self.sql().leave.clone()).bind(owner.as_uuid()).bind(behind);
        free.execute(conn).await.map_err(classify)?;
        Ok(())
    }

    pub(super) async fn do_leave(&self, owner: OwnerToken) -> Result<()> {
        let mut tx = self.begin_write().await?;
        for statement in [&self.sql().leave_node, &self.sql().leave_dispatcher] {
            let leave = sqlx::query(statement.clone()).bind(owner.as_uuid());
            leave.execute(&mut *tx).await.map_err(classify)?;
        }
        self.free_slots(&mut tx, owner, -1).await?;
        commit(tx).await
    }

    /// The owner counts as alive until then, or longer.
    pub(super) async fn sign_of_life(
        &self,
        conn: &mut SqliteConnection,
        sql: &SqlStr,
        owner: OwnerToken,
        until: Timestamp,
    ) -> Result<()> {
        sqlx::query(sql.clone())
            .bind(owner.as_uuid())
            .bind(until.as_micros())
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// The slots in which an owner renews rows are its own until then, or longer.
    pub(super) async fn renew_slots(
        &self,
        conn: &mut SqliteConnection,
        slots: &BTreeSet<i16>,
        until: Timestamp,
    ) -> Result<()> {
        sqlx::query(self.sql().renew_slots.clone())
            .bind(json!(slots).to_string())
            .bind(until.as_micros())
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    /// Visits keys until enough are open, then takes their runs. Answers with the last key, or none
    /// when there is no further one.
    async fn stretch(
        &self,
        conn: &mut SqliteConnection,
        after: Option<Lane>,
        last_slot: i16,
        taking: &mut Taking<'_>,
    ) -> Result<Option<Lane>> {
        let Visited { open, mut last } = self.visit(conn, after, last_slot, taking).await?;
        if open.is_empty() {
            return Ok(last);
        }
        let runs = self.runs(conn, &open, taking).await?;
        let places = runs.iter().flatten().map(|row| row.seq);
        let mut messages = self.messages(conn, places).await?;
        for (key, run) in open.iter().zip(runs) {
            self.take_run(conn, key, run, &mut messages, taking).await?;
            if taking.room == 0 {
                last = Some(key.lane);
                break;
            }
        }
        self.grant(conn, taking).await?;
        Ok(last)
    }

    async fn visit(
        &self,
        conn: &mut SqliteConnection,
        after: Option<Lane>,
        last_slot: i16,
        taking: &mut Taking<'_>,
    ) -> Result<Visited> {
        let wanted = keys_wanted(taking.room);
        let (mut open, mut visits, mut last) = (Vec::new(), 0, after);
        let mut slots = Slots::for_keys(wanted);
        loop {
            let missing = wanted - open.len() as u32;
            if missing == 0 || visits == VISITS {
                return Ok(Visited { open, last });
            }
            let block = missing.max(BLOCK).min(VISITS - visits);
            let keys = self.keys(conn, last, last_slot, block, taking).await?;
            let is_end = (keys.len() as u32) < block;
            for key in keys {
                if open.len() as u32 == wanted {
                    return Ok(Visited { open, last });
                }
                if !slots.admits(key.lane) {
                    return Ok(Visited { open, last: slots.end() });
                }
                visits += 1;
                last = Some(key.lane);
                if key.is_open(taking) {
                    open.push(key);
                }
            }
            if is_end && (open.len() as u32) < wanted {
                return Ok(Visited { open, last: slots.end() });
            }
        }
    }

    async fn keys(
        &self,
        conn: &mut SqliteConnection,
        after: Option<Lane>,
        last_slot: i16,
        limit: u32,
        taking: &Taking<'_>,
    ) -> Result<Vec<Key>> {
        let after = after.unwrap_or(Lane { slot: -1, key_hash: 0 });
        let rows = sqlx::query(self.sql().claim_keys.clone())
            .bind(taking.claim.owner().as_uuid())
            .bind(taking.now.as_micros())
            .bind(last_slot)
            .bind(after.slot)
            .bind(after.key_hash)
            .bind(limit)
            .bind(taking.claim.held_keys().is_none())
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        let keys: sqlx::Result<Vec<_>> = rows.iter().map(key).collect();
        let mut keys = keys.map_err(classify)?;
        // They come in this order, but the statement does not say so: that would be a sort.
        keys.sort_unstable_by_key(|key| key.lane);
        Ok(keys)
    }

    /// The run of each open key: what is taken of it, if there is room.
    async fn runs(
        &self,
        conn: &mut SqliteConnection,
        open: &[Key],
        taking: &Taking<'_>,
    ) -> Result<Vec<Vec<Candidate>>> {
        let keys: Vec<_> = open.iter().map(|key| (key.lane.slot, key.lane.key_hash)).collect();
        let (claim, open_keys) = (taking.claim, open.len() as u32);
        let rows = sqlx::query(self.sql().claim_run.clone())
            .bind(json!(keys).to_string())
            .bind(run_length(taking.room, claim.most_held(), open_keys, claim.held_count()))
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        let mut runs: Vec<Run> = open.iter().map(|_| Run::default()).collect();
        for row in rows {
            let place: i64 = row.try_get("place").map_err(classify)?;
            if let Some(run) = usize::try_from(place).ok().and_then(|place| runs.get_mut(place)) {
                run.add(&row, taking).map_err(classify)?;
            }
        }
        Ok(runs.into_iter().map(|run| run.rows).collect())
    }

    async fn take_run(
        &self,
        conn: &mut SqliteConnection,
        key: &Key,
        run: Vec<Candidate>,
        messages: &mut Messages,
        taking: &mut Taking<'_>,
    ) -> Result<()> {
        let until = key.slot_until.min(taking.until());
        for row in run {
            if taking.room == 0 {
                break;
            }
            let message = messages.remove(&row.seq);
            let decodes = message.is_some();
            let lives = self.take(conn, row, message, until, taking).await?;
            if !lives && (self.inner.config.halt || !decodes) {
                break;
            }
        }
        Ok(())
    }
}

impl Key {
    fn is_open(&self, taking: &mut Taking<'_>) -> bool {
        let is_held = match taking.claim.held_keys() {
            Some(keys) => keys.contains(&self.lane.key_hash),
            None => self.held,
        };
        // A retry that is due and a lease that ran out look alike.
        let waits = self.locked_until.is_some_and(|until| until > taking.now);
        if is_held || self.halted || waits || taking.excludes(self.topic_hash) {
            return false;
        }
        !(self.lost || self.leased) || taking.allow_suspect()
    }
}

/// The rows of a key as they are read, up to the first that must wait.
#[derive(Default)]
struct Run {
    rows: Vec<Candidate>,
    ended: bool,
}

impl Run {
    fn add(&mut self, row: &SqliteRow, taking: &Taking<'_>) -> sqlx::Result<()> {
        let lost_by: Option<Uuid> = row.try_get("owner")?;
        let lost: u32 = row.try_get("lost")?;
        let suspect = lost > 0 || lost_by.is_some();
        let waits = optional_time(row, "locked_until")?.is_some_and(|until| until > taking.now);
        let is_fine = !suspect && !waits && !taking.excludes(row.try_get("topic_hash")?);
        // The first one was looked at when the key was found open.
        if self.ended || !(self.rows.is_empty() || is_fine) {
            self.ended = true;
            return Ok(());
        }
        // A suspect is taken alone.
        self.ended = suspect;
        self.rows.push(Candidate {
            seq: row.try_get("seq")?,
            parked: false,
            suspect,
            lost_by,
            attempts: row.try_get("attempts")?,
            lost,
            expires_at: row.try_get("expires_at")?,
        });
        Ok(())
    }
}

fn key(row: &SqliteRow) -> sqlx::Result<Key> {
    Ok(Key {
        lane: Lane { slot: row.try_get("slot")?, key_hash: row.try_get("key_hash")? },
        leased: row.try_get("leased")?,
        locked_until: optional_time(row, "locked_until")?,
        lost: row.try_get::<u32, _>("lost")? > 0,
        topic_hash: row.try_get("topic_hash")?,
        slot_until: Timestamp::from_micros(row.try_get("slot_until")?),
        halted: row.try_get("halted")?,
        held: row.try_get("held")?,
    })
}

fn standing(row: &SqliteRow) -> sqlx::Result<Standing> {
    let count = |column| row.try_get::<i64, _>(column).map(|n| usize::try_from(n).unwrap_or(0));
    Ok(Standing {
        live_until: optional_time(row, "live_until")?,
        others: count("others")?,
        mine: count("mine")?,
        first_end: optional_time(row, "first_end")?,
        free: count("free")? > 0,
    })
}

fn optional_time(row: &SqliteRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_micros))
}
