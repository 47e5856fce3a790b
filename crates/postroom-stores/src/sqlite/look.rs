//! What people look at: dispatchers, topics, failures, stopped keys, and who did what.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{
    AuditEntry, AuditRecord, BlockedKey, Failing, Heartbeat, Node, TopicStats,
};
use postroom_core::{MessageId, OwnerToken, Result};
use sqlx::Row;
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteRow};
use uuid::Uuid;

use super::admin::{optional_timestamp, timestamp};
use super::classify::classify;
use super::{SqliteStore, commit};
use crate::listing::MAX_PAGE;
use crate::row::{REMEMBERED, block, signed};

impl SqliteStore {
    pub(super) async fn do_report(&self, heartbeat: &Heartbeat) -> Result<()> {
        let heartbeat = heartbeat.cut();
        let mut tx = self.begin_write().await?;
        let now = self.now();
        let report = sqlx::query(self.sql().report.clone())
            .bind(heartbeat.owner.as_uuid())
            .bind(heartbeat.name)
            .bind(heartbeat.version)
            .bind(now.saturating_sub(heartbeat.running_for).as_micros())
            .bind(now.as_micros())
            .bind(now.saturating_add(heartbeat.valid_for).as_micros())
            .bind(heartbeat.draining);
        report.execute(&mut *tx).await.map_err(classify)?;
        let silent = sqlx::query(self.sql().report_silent.clone())
            .bind(now.saturating_sub(REMEMBERED).as_micros())
            .bind(heartbeat.owner.as_uuid());
        silent.execute(&mut *tx).await.map_err(classify)?;
        commit(tx).await
    }

    pub(super) async fn list_nodes(&self) -> Result<Vec<Node>> {
        let now = self.now();
        let query = sqlx::query(self.sql().nodes.clone())
            .bind(now.as_micros())
            .bind(now.saturating_sub(REMEMBERED).as_micros());
        self.read(query, node).await
    }

    pub(super) async fn count_topics(&self, limit: u32) -> Result<Vec<TopicStats>> {
        self.read(sqlx::query(self.sql().topics.clone()).bind(limit), topic_stats).await
    }

    pub(super) async fn list_failing(&self, limit: u32) -> Result<Vec<Failing>> {
        self.read(sqlx::query(self.sql().failing.clone()).bind(limit), failing).await
    }

    pub(super) async fn list_blocked(&self, limit: u32) -> Result<Vec<BlockedKey>> {
        let query = sqlx::query(self.sql().blocked_keys.clone())
            .bind(self.now().as_micros())
            .bind(limit)
            .bind(BlockedKey::MOST_KEYS)
            .bind(BlockedKey::MOST_BEHIND);
        self.read(query, blocked_key).await
    }

    pub(super) async fn add_audit(&self, entry: &AuditEntry) -> Result<()> {
        let entry = entry.cut();
        let mut tx = self.begin_write().await?;
        let query = sqlx::query(self.sql().write_audit.clone())
            .bind(self.now().as_micros())
            .bind(entry.actor)
            .bind(entry.action)
            .bind(entry.target)
            .bind(entry.outcome)
            .bind(signed(entry.changed));
        query.execute(&mut *tx).await.map_err(classify)?;
        commit(tx).await
    }

    pub(super) async fn list_audit(
        &self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>> {
        let query = sqlx::query(self.sql().audit.clone())
            .bind(before.unwrap_or(i64::MAX))
            .bind(limit.min(MAX_PAGE));
        self.read(query, audit_record).await
    }

    async fn read<T>(
        &self,
        query: Query<'_, Sqlite, SqliteArguments>,
        decode: impl Fn(&SqliteRow) -> sqlx::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = query.fetch_all(&self.inner.reader).await.map_err(classify)?;
        rows.iter().map(|row| decode(row).map_err(classify)).collect()
    }
}

fn count(row: &SqliteRow, column: &str) -> sqlx::Result<u64> {
    row.try_get(column)
}

fn node(row: &SqliteRow) -> sqlx::Result<Node> {
    let owner: Uuid = row.try_get("owner")?;
    Ok(Node {
        owner: OwnerToken::try_from(owner).map_err(|error| sqlx::Error::Decode(error.into()))?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        started_at: timestamp(row, "started_at")?,
        seen_at: timestamp(row, "seen_at")?,
        is_live: row.try_get("is_live")?,
        draining: row.try_get("draining")?,
        leases: count(row, "leases")?,
        slots: row.try_get("slots")?,
    })
}

fn topic_stats(row: &SqliteRow) -> sqlx::Result<TopicStats> {
    Ok(TopicStats {
        topic: row.try_get("topic")?,
        live: count(row, "live")?,
        failed: count(row, "failed")?,
        dead: count(row, "dead")?,
    })
}

fn failing(row: &SqliteRow) -> sqlx::Result<Failing> {
    let reason: Option<i16> = row.try_get("reason")?;
    Ok(Failing {
        id: MessageId::from(row.try_get::<Uuid, _>("id")?),
        topic: row.try_get("topic")?,
        reason: reason.and_then(DeadReason::from_code),
        attempts: row.try_get("attempts")?,
        error: row.try_get("error")?,
        at: timestamp(row, "at")?,
    })
}

fn blocked_key(row: &SqliteRow) -> sqlx::Result<BlockedKey> {
    Ok(BlockedKey {
        ordering_key: row.try_get("ordering_key")?,
        tenant_id: row.try_get("tenant_id")?,
        by: MessageId::from(row.try_get::<Uuid, _>("id")?),
        topic: row.try_get("topic")?,
        block: block(optional_timestamp(row, "until")?),
        behind: row.try_get("behind")?,
    })
}

fn audit_record(row: &SqliteRow) -> sqlx::Result<AuditRecord> {
    let entry = AuditEntry {
        actor: row.try_get("actor")?,
        action: row.try_get("action")?,
        target: row.try_get("target")?,
        outcome: row.try_get("outcome")?,
        changed: count(row, "changed")?,
    };
    Ok(AuditRecord { number: row.try_get("number")?, at: timestamp(row, "at")?, entry })
}
