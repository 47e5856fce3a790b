//! What people look at: dispatchers, topics, failures, stopped keys, and who did what.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{
    AuditEntry, AuditRecord, BlockedKey, Failing, Heartbeat, Node, TopicStats,
};
use postroom_core::{MessageId, OwnerToken, Result};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::PgStore;
use super::claim::integer;
use super::classify::classify;
use super::row::{count, counter, small_count, time, time_or_none};
use super::session::Purpose;
use crate::listing::MAX_PAGE;
use crate::row::{block, signed};

impl PgStore {
    pub(super) async fn take_note(&self, heartbeat: &Heartbeat) -> Result<()> {
        let heartbeat = heartbeat.cut();
        let query = self
            .query(&self.sql.report)
            .bind(self.now())
            .bind(heartbeat.owner.as_uuid())
            .bind(heartbeat.name)
            .bind(heartbeat.version)
            .bind(signed(heartbeat.running_for.as_micros()))
            .bind(signed(heartbeat.valid_for.as_micros()))
            .bind(heartbeat.draining);
        self.rows_for(Purpose::Claim, "report", query).await?;
        Ok(())
    }

    pub(super) async fn list_nodes(&self) -> Result<Vec<Node>> {
        let query = self.query(&self.sql.nodes).bind(self.now());
        read("nodes", &self.engine_rows("nodes", query).await?, node)
    }

    pub(super) async fn count_topics(&self, limit: u32) -> Result<Vec<TopicStats>> {
        let query = self.query(&self.sql.topics).bind(i64::from(limit));
        read("topics", &self.engine_rows("topics", query).await?, topic_stats)
    }

    pub(super) async fn list_failing(&self, limit: u32) -> Result<Vec<Failing>> {
        let query = self.query(&self.sql.failing).bind(i64::from(limit));
        read("failing", &self.engine_rows("failing", query).await?, failing)
    }

    pub(super) async fn list_blocked(&self, limit: u32) -> Result<Vec<BlockedKey>> {
        let query = self
            .query(&self.sql.blocked_keys)
            .bind(self.now())
            .bind(i64::from(limit))
            .bind(integer(BlockedKey::MOST_KEYS))
            .bind(i64::from(BlockedKey::MOST_BEHIND));
        read("blocked keys", &self.engine_rows("blocked keys", query).await?, blocked_key)
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
        self.engine_rows("audit", query).await?;
        Ok(())
    }

    pub(super) async fn list_audit(
        &self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditRecord>> {
        let query = self
            .query(&self.sql.audit)
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit.min(MAX_PAGE)));
        read("audit", &self.engine_rows("audit", query).await?, audit_record)
    }
}

fn read<T>(
    what: &str,
    rows: &[PgRow],
    decode: impl Fn(&PgRow) -> sqlx::Result<T>,
) -> Result<Vec<T>> {
    let decoded: sqlx::Result<_> = rows.iter().map(decode).collect();
    decoded.map_err(|error| classify(what, error))
}

fn node(row: &PgRow) -> sqlx::Result<Node> {
    let owner: Uuid = row.try_get("owner")?;
    Ok(Node {
        owner: OwnerToken::try_from(owner).map_err(|error| sqlx::Error::Decode(error.into()))?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        started_at: time(row, "started_at")?,
        seen_at: time(row, "seen_at")?,
        is_live: row.try_get("is_live")?,
        draining: row.try_get("draining")?,
        leases: count(row, "leases")?,
        slots: small_count(row, "slots")?,
    })
}

fn topic_stats(row: &PgRow) -> sqlx::Result<TopicStats> {
    Ok(TopicStats {
        topic: row.try_get("topic")?,
        live: count(row, "live")?,
        failed: count(row, "failed")?,
        dead: count(row, "dead")?,
    })
}

fn failing(row: &PgRow) -> sqlx::Result<Failing> {
    let reason: Option<i16> = row.try_get("reason")?;
    Ok(Failing {
        id: MessageId::from(row.try_get::<Uuid, _>("id")?),
        topic: row.try_get("topic")?,
        reason: reason.and_then(DeadReason::from_code),
        attempts: counter(row, "attempts")?,
        error: row.try_get("error")?,
        at: time(row, "at")?,
    })
}

fn blocked_key(row: &PgRow) -> sqlx::Result<BlockedKey> {
    Ok(BlockedKey {
        ordering_key: row.try_get("ordering_key")?,
        tenant_id: row.try_get("tenant_id")?,
        by: MessageId::from(row.try_get::<Uuid, _>("id")?),
        topic: row.try_get("topic")?,
        block: block(time_or_none(row, "locked_until")?),
        behind: small_count(row, "behind")?,
    })
}

fn audit_record(row: &PgRow) -> sqlx::Result<AuditRecord> {
    let entry = AuditEntry {
        actor: row.try_get("actor")?,
        action: row.try_get("action")?,
        target: row.try_get("target")?,
        outcome: row.try_get("outcome")?,
        changed: count(row, "changed")?,
    };
    Ok(AuditRecord { number: row.try_get("number")?, at: time(row, "at")?, entry })
}
