//! Replay, discard and pause.

use std::collections::{HashMap, HashSet};

use postroom_core::store::{Changed, Pause, PauseRecord, Paused, Record, Refusal, Store};
use postroom_core::{MessageId, Result, Topic};
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::mysql::MySqlRow;
use uuid::Uuid;

use super::MySqlStore;
use super::admin::record;
use super::classify::classify;
use super::row::{text_or_none, time};
use crate::row::Payloads;

/// Replay reads messages: so many at a time.
const CHUNK: usize = 100;

impl MySqlStore {
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
        let query = self.query(&self.sql.replay).bind(self.now()).bind(places.to_json());
        let replayed = answered("replay", &self.engine_rows("replay", query).await?)?;
        // It lies below what claims have passed.
        self.floor.lower(first);
        // Somebody else was faster.
        let late = places.ids.into_iter().filter(|id| !replayed.contains(id));
        refused.extend(late.map(|id| (id, Refusal::NotDead)));
        Ok(refused)
    }

    pub(super) async fn discard_free(&self, ids: &[MessageId]) -> Result<Changed> {
        let query = self.query(&self.sql.discard).bind(self.now()).bind(id_list(ids));
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
        let query = self.query(&self.sql.get).bind(payloads == Payloads::Read).bind(id_list(ids));
        let rows = self.engine_rows(what, query).await?;
        let records: sqlx::Result<Vec<_>> = rows.iter().map(record).collect();
        let records = records.map_err(|error| classify(what, error))?;
        Ok(records.into_iter().map(|record| (record.id, record)).collect())
    }

    pub(super) async fn add_pause(&self, pause: &Pause) -> Result<bool> {
        let query = self
            .query(&self.sql.pause)
            .bind(pause.topic.as_ref().map(Topic::to_string).unwrap_or_default())
            .bind(pause.topic.as_ref().map(Topic::hash64))
            .bind(self.now())
            .bind(pause.by.clone())
            .bind(pause.reason.clone());
        Ok(self.engine_changes("pause", query).await? > 0)
    }

    pub(super) async fn end_pause(&self, topic: Option<&Topic>) -> Result<bool> {
        let topic = topic.map(Topic::to_string).unwrap_or_default();
        let query = self.query(&self.sql.resume).bind(topic);
        let resumed = self.engine_changes("resume", query).await? > 0;
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
        Ok(Paused::of(hashes))
    }
}

/// The places of dead messages, with what only their messages tell.
#[derive(Default)]
struct Places {
    ids: Vec<MessageId>,
    seqs: Vec<i64>,
    rows: Vec<Value>,
}

impl Places {
    fn push(&mut self, record: &Record) {
        let Some(message) = &record.message else { return };
        if self.ids.contains(&record.id) {
            return;
        }
        let lane = message.lane();
        let (slot, key_hash) = (lane.map(|lane| lane.slot), lane.map(|lane| lane.key_hash));
        let (tenant, topic) = (message.tenant_hash(), message.topic_hash());
        self.ids.push(record.id);
        self.seqs.push(record.work.seq());
        self.rows.push(json!([record.work.seq(), slot, key_hash, tenant, topic]));
    }

    fn to_json(&self) -> String {
        json!(self.rows).to_string()
    }
}

fn id_list(ids: &[MessageId]) -> String {
    let ids: Vec<_> = ids.iter().map(|id| id.as_uuid().simple().to_string()).collect();
    json!(ids).to_string()
}

/// The ids of the messages that a statement changed.
fn answered(what: &str, rows: &[MySqlRow]) -> Result<HashSet<MessageId>> {
    let ids: sqlx::Result<_> =
        rows.iter().map(|row| row.try_get::<Uuid, _>("id").map(MessageId::from)).collect();
    ids.map_err(|error| classify(what, error))
}

fn pause_record(row: &MySqlRow) -> sqlx::Result<PauseRecord> {
    Ok(PauseRecord {
        topic: text_or_none(row, "topic")?,
        since: time(row, "paused_at")?,
        by: text_or_none(row, "paused_by")?,
        reason: text_or_none(row, "reason")?,
    })
}
