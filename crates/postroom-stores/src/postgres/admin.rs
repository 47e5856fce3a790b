//! For people: look, count.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{Attempt, Detail, List, Page, Record, Stats};
use postroom_core::{MessageId, OwnerToken, Result, WorkId};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::PgStore;
use super::claim::integer;
use super::classify::classify;
use super::row::{count, counter, stored_message, time, time_or_none};
use super::session::broken;
use super::time::PgTime;
use crate::listing::{Place, SEARCHED, Span};
use crate::row::{Payloads, state, status_code};

impl PgStore {
    pub(super) async fn list_page(&self, list: &List) -> Result<Page> {
        let Some(span) = Span::new(list) else { return Ok(Page::default()) };
        let end = if list.is_search() { self.list_end(list, span).await? } else { None };
        let span = span.down_to(end);
        let ids = self.list_ids(list, span).await?;
        Ok(span.page(&ids, self.records("list", &ids, Payloads::Left).await?))
    }

    async fn list_end(&self, list: &List, span: Span) -> Result<Option<Uuid>> {
        let query = self
            .query(&self.sql.list_end)
            .bind(Place::of(list).code())
            .bind(span.newest)
            .bind(integer(SEARCHED - 1))
            .bind(list.aggregate_type.clone())
            .bind(list.aggregate_id.clone())
            .bind(list.ordering_key.clone());
        let rows = self.engine_rows("list", query).await?;
        let end = rows.first().map(|row| row.try_get("id")).transpose();
        end.map_err(|error| classify("list", error))
    }

    async fn list_ids(&self, list: &List, span: Span) -> Result<Vec<MessageId>> {
        let query = self
            .query(&self.sql.list)
            .bind(list.status.map(status_code))
            .bind(list.topic.clone())
            .bind(list.topic_prefix.clone())
            .bind(list.tenant.clone())
            .bind(list.aggregate_type.clone())
            .bind(list.aggregate_id.clone())
            .bind(list.ordering_key.clone())
            .bind(list.since.map(PgTime))
            .bind(list.until.map(PgTime))
            .bind(list.error.clone())
            .bind(list.min_attempts.map(integer))
            .bind(list.reason.map(DeadReason::code))
            .bind(span.oldest)
            .bind(span.newest)
            .bind(integer(span.limit))
            .bind(integer(span.reach))
            .bind(Place::of(list).code());
        let rows = self.engine_rows("list", query).await?;
        let ids: sqlx::Result<_> =
            rows.iter().map(|row| row.try_get::<Uuid, _>("id").map(MessageId::from)).collect();
        ids.map_err(|error| classify("list", error))
    }

    pub(super) async fn get_detail(&self, id: MessageId) -> Result<Option<Detail>> {
        let mut found = self.records("get", &[id], Payloads::Read).await?;
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

pub(super) fn record(row: &PgRow) -> sqlx::Result<Record> {
    let settled: Option<i16> = row.try_get("settled")?;
    let owner = owner(row, "owner")?;
    let reason: Option<i16> = row.try_get("reason")?;
    let id: Uuid = row.try_get("id")?;
    Ok(Record {
        // A row that can not be decoded is shown all the same: that is what people look for.
        message: stored_message(row).ok().and_then(|stored| stored.decode().ok()),
        payload_bytes: count(row, "payload_bytes")?,
        id: MessageId::from(id),
        work: WorkId::new(row.try_get("seq")?),
        topic: row.try_get("topic")?,
        tenant_id: row.try_get("tenant_id")?,
        state: state(settled, owner.is_some()),
        reason: reason.and_then(DeadReason::from_code),
        created_at: time(row, "created_at")?,
        attempts: counter(row, "attempts")?,
        lost: counter(row, "lost")?,
        next_attempt_at: time_or_none(row, "next_attempt_at")?,
        locked_until: time_or_none(row, "locked_until")?,
        owner,
        last_error: row.try_get("last_error")?,
        processed_at: time_or_none(row, "settled_at")?,
        processed_by: self::owner(row, "settled_by")?,
    })
}

fn attempt(row: &PgRow) -> sqlx::Result<Attempt> {
    Ok(Attempt {
        at: time(row, "at")?,
        by: owner(row, "by_owner")?,
        lease_lost: row.try_get("lease_lost")?,
        error: row.try_get("error")?,
    })
}

fn stats(row: &PgRow) -> sqlx::Result<Stats> {
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

pub(super) fn owner(row: &PgRow, column: &str) -> sqlx::Result<Option<OwnerToken>> {
    let owner: Option<Uuid> = row.try_get(column)?;
    Ok(owner.and_then(|owner| OwnerToken::try_from(owner).ok()))
}
