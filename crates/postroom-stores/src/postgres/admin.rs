//! For people: look, count.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{Attempt, Detail, List, Page, Record, Stats};
use postroom_core::{MessageId, OwnerToken, Result, WorkId};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use super::PgStore;
use super::claim::integer;
use super::classify::classify;
use super::row::{count, counter, stored_message, time, time_or_none};
use super::session::broken;
use super::time::PgTime;
use crate::listing::{self, Lists, Mark, Place, Span};
use crate::row::{Payloads, state, status_code};

impl Lists for PgStore {
    async fn end(&self, list: &List, newest: Mark, count: u32) -> Result<Option<Mark>> {
        let before_it = integer(count - 1);
        let query = match Place::of(list) {
            Place::Live => self
                .query(&self.sql.list_live_end)
                .bind(list.status.map(status_code))
                .bind(newest.seq)
                .bind(before_it),
            place => self
                .query(&self.sql.list_end)
                .bind(place.code())
                .bind(newest.id)
                .bind(before_it)
                .bind(list.aggregate_type.clone())
                .bind(list.aggregate_id.clone())
                .bind(list.ordering_key.clone()),
        };
        Ok(self.marks(query).await?.pop())
    }

    async fn within(&self, list: &List, span: Span) -> Result<Vec<Mark>> {
        let place = Place::of(list);
        let text = if place == Place::Live { &self.sql.list_live } else { &self.sql.list };
        let query = self
            .query(text)
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
            .bind(list.reason.map(DeadReason::code));
        let (limit, reach) = (integer(span.limit), integer(span.reach));
        let query = match place {
            Place::Live => {
                query.bind(span.oldest.seq).bind(span.newest.seq).bind(limit).bind(reach)
            }
            place => query
                .bind(span.oldest.id)
                .bind(span.newest.id)
                .bind(limit)
                .bind(reach)
                .bind(place.code()),
        };
        self.marks(query).await
    }

    async fn at(&self, id: MessageId) -> Result<Option<Mark>> {
        Ok(self.marks(self.query(&self.sql.list_at).bind(id.as_uuid())).await?.pop())
    }
}

impl PgStore {
    pub(super) async fn list_page(&self, list: &List) -> Result<Page> {
        let found = listing::find(self, list).await?;
        let records = self.records("list", &found.ids, Payloads::Left).await?;
        Ok(found.page(records))
    }

    async fn marks(&self, query: Query<'static, Postgres, PgArguments>) -> Result<Vec<Mark>> {
        let rows = self.engine_rows("list", query).await?;
        let mark = |row: &PgRow| -> sqlx::Result<Mark> {
            // Only lists of live rows tell places in the queue.
            let seq = if row.len() > 1 { row.try_get("seq")? } else { 0 };
            Ok(Mark { id: row.try_get("id")?, seq })
        };
        rows.iter().map(mark).collect::<sqlx::Result<_>>().map_err(|error| classify("list", error))
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
