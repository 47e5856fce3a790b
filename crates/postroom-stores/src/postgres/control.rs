//! Replay, discard and pause.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use postroom_core::store::{Changed, Pause, PauseRecord, Paused, Record, Refusal, Store};
use postroom_core::{MessageId, Result, Topic};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::PgStore;
use super::admin::record;
use super::classify::classify;
use super::row::time;
use crate::row::Payloads;

/// What this process believes to be paused: topics, none for the whole queue. Each claim says
/// whether it is right.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<Vec<Option<i64>>>);

impl Pauses {
    pub(super) fn believed(&self) -> Vec<Option<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn learn(&self, paused: Vec<Option<i64>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = paused;
    }
}

/// Replay reads messages: so many at a time.
const CHUNK: usize = 100;

impl PgStore {
    pub(super) async fn replay_dead(&self, ids: &[MessageId]) -> Result<Changed> {
        let mut refused = HashMap::new();
        for chunk in ids.chunks(CHUNK) {
            refused.extend(self.replay_chunk(chunk).await?);
        }
        self.wake();
        Ok(Changed::each(ids, |id| refused.get(&id).copied()))
    }

    /// Answers with what was not replayed.
    async fn replay_chunk(&self, ids: &[MessageId]) -> Result<HashMap<MessageId, Refusal>> {
        let records = self.records("replay", ids, Payloads::Left).await?;
        let mut refused = HashMap::new();
        let mut places = Places::default();
        for id in ids {
            let record = records.get(id);
            let decodes = record.is_some_and(|record| record.message.is_some());
            match (Refusal::of_replay(record.map(|record| record.state), decodes), record) {
                (None, Some(record)) => places.push(record),
                (why, _) => _ = refused.insert(*id, why.unwrap_or(Refusal::Missing)),
            }
        }
        let first = places.seqs.iter().min().copied();
        let Some(first) = first else { return Ok(refused) };
        let query = self
            .query(&self.sql.replay)
            .bind(self.now())
            .bind(places.seqs)
            .bind(places.slots)
            .bind(places.key_hashes)
            .bind(places.tenant_hashes)
            .bind(places.topic_hashes);
        let replayed = answered("replay", &self.engine_rows("replay", query).await?)?;
        // It lies below what claims have passed.
        self.floor.lower(first);
        // Somebody else was faster.
        let late = places.ids.into_iter().filter(|id| !replayed.contains(id));
        refused.extend(late.map(|id| (id, Refusal::NotDead)));
        Ok(refused)
    }

    pub(super) async fn discard_free(&self, ids: &[MessageId]) -> Result<Changed> {
        let given: Vec<_> = ids.iter().map(|id| id.as_uuid()).collect();
        let query = self.query(&self.sql.discard).bind(self.now()).bind(given);
        let discarded = answered("discard", &self.engine_rows("discard", query).await?)?;
        let others: Vec<_> = ids.iter().copied().filter(|id| !discarded.contains(id)).collect();
        let mut states = HashMap::new();
        for chunk in others.chunks(CHUNK) {
            let records = self.records("discard", chunk, Payloads::Left).await?;
            states.extend(records.into_iter().map(|(id, record)| (id, record.state)));
        }
        // A key may go on.
        self.wake();
        Ok(Changed::each(ids, |id| match discarded.contains(&id) {
            true => None,
            false => Some(Refusal::of_discard(states.get(&id).copied())),
        }))
    }

    /// The messages with their state, as far as they are there.
    pub(super) async fn records(
        &self,
        what: &str,
        ids: &[MessageId],
        payloads: Payloads,
    ) -> Result<HashMap<MessageId, Record>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<_> = ids.iter().map(|id| id.as_uuid()).collect();
        let query = self.query(&self.sql.get).bind(ids).bind(payloads == Payloads::Read);
        let rows = self.engine_rows(what, query).await?;
        let records: sqlx::Result<Vec<_>> = rows.iter().map(record).collect();
        let records = records.map_err(|error| classify(what, error))?;
        Ok(records.into_iter().map(|record| (record.id, record)).collect())
    }

    pub(super) async fn add_pause(&self, pause: &Pause) -> Result<bool> {
        let query = self
            .query(&self.sql.pause)
            .bind(self.now())
            .bind(pause.topic.as_ref().map(Topic::to_string))
            .bind(pause.topic.as_ref().map(Topic::hash64))
            .bind(pause.by.clone())
            .bind(pause.reason.clone());
        Ok(!self.engine_rows("pause", query).await?.is_empty())
    }

    pub(super) async fn end_pause(&self, topic: Option<&Topic>) -> Result<bool> {
        let query = self.query(&self.sql.resume).bind(topic.map(Topic::to_string));
        let resumed = !self.engine_rows("resume", query).await?.is_empty();
        // Claims have passed over what was paused.
        self.floor.lower(0);
        self.wake();
        Ok(resumed)
    }

    pub(super) async fn list_pauses(&self) -> Result<Vec<PauseRecord>> {
        let rows = self.engine_rows("pauses", self.query(&self.sql.pauses)).await?;
        let pauses: sqlx::Result<_> = rows.iter().map(pause_record).collect();
        pauses.map_err(|error| classify("pauses", error))
    }

    pub(super) async fn look_for_pauses(&self) -> Result<Paused> {
        let rows = self.engine_rows("pauses", self.query(&self.sql.paused)).await?;
        let hashes: sqlx::Result<Vec<Option<i64>>> =
            rows.iter().map(|row| row.try_get("topic_hash")).collect();
        let hashes = hashes.map_err(|error| classify("pauses", error))?;
        self.pauses.learn(hashes.clone());
        Ok(Paused::of(hashes))
    }

    /// Whether the whole queue is paused. It costs nothing as long as it is not.
    pub(super) async fn is_paused(&self) -> Result<bool> {
        let believed = self.pauses.believed().contains(&None);
        Ok(believed && self.look_for_pauses().await?.all)
    }
}

/// The parameters of `replay.sql`, an element per message.
#[derive(Default)]
struct Places {
    ids: Vec<MessageId>,
    seqs: Vec<i64>,
    slots: Vec<Option<i16>>,
    key_hashes: Vec<Option<i64>>,
    tenant_hashes: Vec<Option<i64>>,
    topic_hashes: Vec<i64>,
}

impl Places {
    fn push(&mut self, record: &Record) {
        let Some(message) = &record.message else { return };
        if self.ids.contains(&record.id) {
            return;
        }
        let lane = message.lane();
        self.ids.push(record.id);
        self.seqs.push(record.work.seq());
        self.slots.push(lane.map(|lane| lane.slot));
        self.key_hashes.push(lane.map(|lane| lane.key_hash));
        self.tenant_hashes.push(message.tenant_hash());
        self.topic_hashes.push(message.topic_hash());
    }
}

/// The ids of the messages that a statement changed.
fn answered(what: &str, rows: &[PgRow]) -> Result<HashSet<MessageId>> {
    let ids: sqlx::Result<_> =
        rows.iter().map(|row| row.try_get::<Uuid, _>("id").map(MessageId::from)).collect();
    ids.map_err(|error| classify(what, error))
}

fn pause_record(row: &PgRow) -> sqlx::Result<PauseRecord> {
    Ok(PauseRecord {
        topic: row.try_get("topic")?,
        since: time(row, "paused_at")?,
        by: row.try_get("paused_by")?,
        reason: row.try_get("reason")?,
    })
}
