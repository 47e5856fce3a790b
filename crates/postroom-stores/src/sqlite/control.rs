//! Replay, discard and pause.

use std::collections::HashMap;

use postroom_core::lifecycle::State;
use postroom_core::store::{Changed, Pause, PauseRecord, Paused, Record, Refusal, Store};
use postroom_core::{MessageId, Result, Timestamp, Topic};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, Sqlite};

use super::admin::{record, timestamp};
use super::classify::classify;
use super::sql::Statements;
use super::{SqliteStore, commit};
use crate::row::Payloads;

impl SqliteStore {
    pub(super) async fn do_replay(&self, ids: &[MessageId]) -> Result<Changed> {
        let mut tx = self.begin_write().await?;
        let now = self.now();
        let records = self.records(&mut *tx, ids, Payloads::Left).await?;
        let changed = Changed::each(ids, |id| {
            let record = records.get(&id);
            let decodes = record.is_some_and(|record| record.message.is_some());
            Refusal::of_replay(record.map(|record| record.state), decodes)
        });
        let places = changed.applied.iter().filter_map(|id| place(&records[id], now));
        let places = Value::from_iter(places).to_string();
        let seqs: Vec<_> = changed.applied.iter().map(|id| records[id].work.seq()).collect();
        self.count_reopened(&mut tx, &seqs).await?;
        self.run_on(&mut tx, &self.sql().replay, &seqs).await?;
        self.run_on(&mut tx, &self.sql().forget_halts, &seqs).await?;
        for statement in [&self.sql().append_place, &self.sql().append_park] {
            let query = sqlx::query(statement.clone()).bind(&places);
            query.execute(&mut *tx).await.map_err(classify)?;
        }
        commit(tx).await?;
        self.wake();
        Ok(changed)
    }

    pub(super) async fn do_discard(&self, ids: &[MessageId]) -> Result<Changed> {
        let mut tx = self.begin_write().await?;
        let now = self.now();
        let records = self.records(&mut *tx, ids, Payloads::Left).await?;
        let changed = Changed::each(ids, |id| match records.get(&id).map(|record| record.state) {
            Some(State::Ready | State::Dead) => None,
            other => Some(Refusal::of_discard(other)),
        });
        let seqs: Vec<_> = changed.applied.iter().map(|id| records[id].work.seq()).collect();
        self.count_dead(&mut tx, &seqs, now).await?;
        sqlx::query(self.sql().discard.clone())
            .bind(json!(seqs).to_string())
            .bind(now.as_micros())
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        for statement in [&self.sql().unqueue, &self.sql().claim_unparked, &self.sql().forget_halts]
        {
            self.run_on(&mut tx, statement, &seqs).await?;
        }
        commit(tx).await?;
        // A key may go on.
        self.wake();
        Ok(changed)
    }

    /// The messages with their state, as far as they are there.
    pub(super) async fn records(
        &self,
        conn: impl sqlx::Executor<'_, Database = Sqlite>,
        ids: &[MessageId],
        payloads: Payloads,
    ) -> Result<HashMap<MessageId, Record>> {
        let ids: Vec<_> = ids.iter().map(|id| id.as_uuid().simple().to_string()).collect();
        let query = sqlx::query(self.sql().get.clone())
            .bind(json!(ids).to_string())
            .bind(payloads == Payloads::Read);
        let rows = query.fetch_all(conn).await.map_err(classify)?;
        let records: sqlx::Result<Vec<_>> = rows.iter().map(record).collect();
        Ok(records.map_err(classify)?.into_iter().map(|record| (record.id, record)).collect())
    }

    pub(super) async fn do_pause(&self, pause: &Pause) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let paused = sqlx::query(self.sql().pause.clone())
            .bind(pause.topic.as_ref().map(Topic::as_str))
            .bind(pause.topic.as_ref().map(Topic::hash64))
            .bind(self.now().as_micros())
            .bind(&pause.by)
            .bind(&pause.reason)
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        commit(tx).await?;
        Ok(paused.rows_affected() == 1)
    }

    pub(super) async fn do_resume(&self, topic: Option<&Topic>) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let query = sqlx::query(self.sql().resume.clone()).bind(topic.map(Topic::as_str));
        let resumed = query.execute(&mut *tx).await.map_err(classify)?;
        commit(tx).await?;
        self.wake();
        Ok(resumed.rows_affected() > 0)
    }

    pub(super) async fn list_pauses(&self) -> Result<Vec<PauseRecord>> {
        let query = sqlx::query(self.sql().pauses.clone());
        let rows = query.fetch_all(&self.inner.reader).await.map_err(classify)?;
        rows.iter().map(|row| pause_record(row).map_err(classify)).collect()
    }

    pub(super) async fn look_for_pauses(&self) -> Result<Paused> {
        let mut conn = self.inner.reader.acquire().await.map_err(classify)?;
        paused(self.sql(), &mut conn).await
    }
}

/// What is paused, as this connection's transaction sees it.
pub(super) async fn paused(sql: &Statements, conn: &mut SqliteConnection) -> Result<Paused> {
    let pauses: Vec<Option<i64>> =
        sqlx::query_scalar(sql.paused.clone()).fetch_all(conn).await.map_err(classify)?;
    Ok(Paused::of(pauses))
}

/// The new row of a replayed message: as when it was published, but without an expiry, of which it
/// may have died.
fn place(record: &Record, now: Timestamp) -> Option<Value> {
    let message = record.message.as_ref()?;
    let lane = message.lane();
    let wake_at = message.due().map(|due| due.resolve(now)).filter(|due| *due > now);
    Some(json!({
        "seq": record.work.seq(),
        "id": record.id.as_uuid().simple().to_string(),
        "slot": lane.map(|lane| lane.slot),
        "key_hash": lane.map(|lane| lane.key_hash),
        "tenant_hash": message.tenant_hash(),
        "topic_hash": message.topic_hash(),
        "priority": message.priority(),
        "wake_at": wake_at.map(Timestamp::as_micros),
    }))
}

fn pause_record(row: &SqliteRow) -> sqlx::Result<PauseRecord> {
    Ok(PauseRecord {
        topic: row.try_get("topic")?,
        since: timestamp(row, "paused_at")?,
        by: row.try_get("paused_by")?,
        reason: row.try_get("reason")?,
    })
}
