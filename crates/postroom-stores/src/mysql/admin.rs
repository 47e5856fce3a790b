//! For people: look, count.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{Attempt, Detail, List, Record, Stats};
use postroom_core::{MessageId, OwnerToken, Result, WorkId};
use sqlx::Row;
use sqlx::mysql::MySqlRow;
use uuid::Uuid;

use super::MySqlStore;
use super::classify::classify;
use super::row::{count, counter, flag, stored_message, text, text_or_none, time, time_or_none};
use super::session::broken;
use crate::row::{state, status_code};

/// The most messages on one page.
pub(super) const MAX_PAGE: u32 = 500;

impl MySqlStore {
    pub(super) async fn list_page(&self, list: &List) -> Result<Vec<Record>> {
        let before = list.before.map(MessageId::as_uuid);
        let query = self
            .query(&self.sql.list)
            .bind(before)
            .bind(before)
            .bind(list.topic.clone())
            .bind(list.topic.clone())
            .bind(list.tenant.clone())
            .bind(list.tenant.clone())
            .bind(list.status.map(status_code))
            .bind(list.limit.min(MAX_PAGE));
        let rows = self.engine_rows("list", query).await?;
        let records: sqlx::Result<_> = rows.iter().map(record).collect();
        records.map_err(|error| classify("list", error))
    }

    pub(super) async fn get_detail(&self, id: MessageId) -> Result<Option<Detail>> {
        let mut found = self.records("get", &[id]).await?;
        let Some(record) = found.remove(&id) else { return Ok(None) };
        let query = self.query(&self.sql.attempts).bind(id.as_uuid());
        let rows = self.engine_rows("get", query).await?;
        let history: sqlx::Result<_> = rows.iter().map(attempt).collect();
        let history = history.map_err(|error| classify("get", error))?;
        Ok(Some(Detail { record, history }))
    }

    pub(super) async fn count_states(&self) -> Result<Stats> {
        let query = self.query(&self.sql.stats).bind(self.now());
        let rows = self.engine_rows("stats", query).await?;
        let row = rows.first().ok_or_else(|| broken("a row"))?;
        stats(row).map_err(|error| classify("stats", error))
    }
}

pub(super) fn record(row: &MySqlRow) -> sqlx::Result<Record> {
    let settled: Option<i16> = row.try_get("settled")?;
    let owner = owner(row, "owner")?;
    let reason: Option<i16> = row.try_get("reason")?;
    let id: Uuid = row.try_get("id")?;
    Ok(Record {
        // A row that can not be decoded is shown all the same: that is what people look for.
        message: stored_message(row).ok().and_then(|stored| stored.decode().ok()),
        id: MessageId::from(id),
        work: WorkId::new(row.try_get("seq")?),
        topic: text(row, "topic")?,
        tenant_id: text_or_none(row, "tenant_id")?,
        state: state(settled, owner.is_some()),
        reason: reason.and_then(DeadReason::from_code),
        created_at: time(row, "created_at")?,
        attempts: counter(row, "attempts")?,
        lost: counter(row, "lost")?,
        next_attempt_at: time_or_none(row, "next_attempt_at")?,
        locked_until: time_or_none(row, "locked_until")?,
        owner,
        last_error: text_or_none(row, "last_error")?,
        processed_at: time_or_none(row, "settled_at")?,
        processed_by: self::owner(row, "settled_by")?,
    })
}

fn attempt(row: &MySqlRow) -> sqlx::Result<Attempt> {
    Ok(Attempt {
        at: time(row, "at")?,
        by: owner(row, "by_owner")?,
        lease_lost: flag(row, "lease_lost")?,
        error: text_or_none(row, "error")?,
    })
}

fn stats(row: &MySqlRow) -> sqlx::Result<Stats> {
    let now = time(row, "now")?;
    Ok(Stats {
        ready: count(row, "ready")?,
        waiting: count(row, "waiting")?,
        leased: count(row, "leased")?,
        failed: count(row, "failed")?,
        done: count(row, "done")?,
        dead: count(row, "dead")?,
        oldest_ready: time_or_none(row, "oldest_ready")?.map(|oldest| now.since(oldest)),
    })
}

fn owner(row: &MySqlRow, column: &str) -> sqlx::Result<Option<OwnerToken>> {
    let owner: Option<Uuid> = row.try_get(column)?;
    Ok(owner.and_then(|owner| OwnerToken::try_from(owner).ok()))
}
