//! What people look at: dispatchers, topics, failures, stopped keys, and who did what.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{
    AuditEntry, AuditRecord, BlockedKey, Failing, Heartbeat, Node, TopicStats,
};
use postroom_core::{MessageId, OwnerToken, Result};
use sqlx::Row;
use sqlx::mysql::MySqlRow;
use uuid::Uuid;

use super::MySqlStore;
use super::classify::classify;
use super::row::{count, counter, flag, int, text, text_or_none, time, time_or_none};
use crate::listing::MAX_PAGE;
use crate::row::{block, signed};

impl MySqlStore {
    pub(super) async fn take_note(&self, heartbeat: &Heartbeat) -> Result<()> {
        let heartbeat = heartbeat.cut();
        let query = self
            .query(&self.sql.report)
            .bind(heartbeat.owner.as_uuid())
            .bind(heartbeat.name)
            .bind(heartbeat.version)
            .bind(heartbeat.draining)
            .bind(signed(heartbeat.running_for.as_micros()))
            .bind(signed(heartbeat.valid_for.as_micros()))
            .bind(self.now());
        self.engine_changes("report", query).await?;
        let silent = self.query(&self.sql.report_silent).bind(self.now());
        self.engine_changes("report", silent.bind(heartbeat.owner.as_uuid())).await?;
        Ok(())
    }

    pub(super) async fn list_nodes(&self) -> Result<Vec<Node>> {
        let query = self.query(&self.sql.nodes).bind(self.now());
        read("nodes", &self.engine_rows("nodes", query).await?, node)
    }

    pub(super) async fn count_topics(&self, limit: u32) -> Result<Vec<TopicStats>> {
        let query = self.query(&self.sql.topics).bind(limit);
        read("topics", &self.engine_rows("topics", query).await?, topic_stats)
    }

    pub(super) async fn list_failing(&self, limit: u32) -> Result<Vec<Failing>> {
        let query = self.query(&self.sql.failing).bind(limit).bind(limit);
        read("failing", &self.engine_rows("failing", query).await?, failing)
    }

    pub(super) async fn list_blocked(&self, limit: u32) -> Result<Vec<BlockedKey>> {
        let query = self
            .query(&self.sql.blocked_keys)
            .bind(limit)
            .bind(BlockedKey::MOST_KEYS)
            .bind(self.now())
            .bind(limit)
            .bind(limit);
        let rows = self.engine_rows("blocked keys", query).await?;
        let mut keys = read("blocked keys", &rows, blocked_key)?;
        for (key, row) in keys.iter_mut().zip(&rows) {
            key.behind = self.count_behind(row).await?;
        }
        Ok(keys)
    }

    async fn count_behind(&self, row: &MySqlRow) -> Result<u32> {
        let what = |error| classify("blocked keys", error);
        let mut query = self.query(&self.sql.blocked_behind);
        for column in ["slot", "key_hash", "seq"] {
            query = query.bind(int(row, column).map_err(what)?);
        }
        let rows = self.engine_rows("blocked keys", query.bind(BlockedKey::MOST_BEHIND)).await?;
        rows.first().map_or(Ok(0), |row| counter(row, "behind")).map_err(what)
    }

    pub(super) async fn add_audit(&self, entry: &AuditEntry) -> Result<()> {
        let entry = entry.cut();
        let query = self
            .query(&self.sql.write_audit)
            .bind(self.now())
            .bind(entry.actor)
            .bind(entry.action)
            .bind(entry.target)
            .bind(entry.outcome)
            .bind(signed(entry.changed));
        self.engine_changes("audit", query).await?;
        Ok(())
    }

    pub(super) async fn list_audit(
        &self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>> {
        let query =
            self.query(&self.sql.audit).bind(before.unwrap_or(i64::MAX)).bind(limit.min(MAX_PAGE));
        read("audit", &self.engine_rows("audit", query).await?, audit_record)
    }
}

fn read<T>(
    what: &str,
    rows: &[MySqlRow],
    decode: impl Fn(&MySqlRow) -> sqlx::Result<T>,
) -> Result<Vec<T>> {
    let decoded: sqlx::Result<_> = rows.iter().map(decode).collect();
    decoded.map_err(|error| classify(what, error))
}

fn node(row: &MySqlRow) -> sqlx::Result<Node> {
    let owner: Uuid = row.try_get("owner")?;
    Ok(Node {
        owner: OwnerToken::try_from(owner).map_err(|error| sqlx::Error::Decode(error.into()))?,
        name: text(row, "name")?,
        version: text(row, "version")?,
        started_at: time(row, "started_at")?,
        seen_at: time(row, "seen_at")?,
        is_live: flag(row, "is_live")?,
        draining: flag(row, "draining")?,
        leases: count(row, "leases")?,
        slots: counter(row, "slots")?,
    })
}

fn topic_stats(row: &MySqlRow) -> sqlx::Result<TopicStats> {
    Ok(TopicStats {
        topic: text(row, "topic")?,
        live: count(row, "live")?,
        failed: count(row, "failed")?,
        dead: count(row, "dead")?,
    })
}

fn failing(row: &MySqlRow) -> sqlx::Result<Failing> {
    let reason: Option<i16> = row.try_get("reason")?;
    Ok(Failing {
        id: MessageId::from(row.try_get::<Uuid, _>("id")?),
        topic: text(row, "topic")?,
        reason: reason.and_then(DeadReason::from_code),
        attempts: counter(row, "attempts")?,
        error: text_or_none(row, "error")?,
        at: time(row, "at")?,
    })
}

/// But for what lies behind it.
fn blocked_key(row: &MySqlRow) -> sqlx::Result<BlockedKey> {
    Ok(BlockedKey {
        ordering_key: text_or_none(row, "ordering_key")?,
        tenant_id: text_or_none(row, "tenant_id")?,
        by: MessageId::from(row.try_get::<Uuid, _>("id")?),
        topic: text(row, "topic")?,
        block: block(time_or_none(row, "until")?),
        behind: 0,
    })
}

fn audit_record(row: &MySqlRow) -> sqlx::Result<AuditRecord> {
    let entry = AuditEntry {
        actor: text(row, "actor")?,
        action: text(row, "action")?,
        target: text(row, "target")?,
        outcome: text(row, "outcome")?,
        changed: count(row, "changed")?,
    };
    Ok(AuditRecord { number: int(row, "number")?, at: time(row, "at")?, entry })
}
