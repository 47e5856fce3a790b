//! For people: look, count.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{Attempt, Detail, List, Page, Record, Stats};
use postroom_core::{MessageId, OwnerToken, Result, Timestamp, WorkId};
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::Query;
use sqlx::{MySql, Row};
use uuid::Uuid;

use super::MySqlStore;
use super::classify::classify;
use super::row::{count, counter, flag, stored_message, text, text_or_none, time, time_or_none};
use super::session::broken;
use crate::listing::{self, Lists, Mark, Place, Span};
use crate::row::{Payloads, state, status_code};

impl Lists for MySqlStore {
    /// There is no index of dead letters alone.
    fn sorts(&self, place: Place) -> bool {
        place == Place::DeadLetters
    }

    async fn end(&self, list: &List, newest: Mark, count: u32) -> Result<Option<Mark>> {
        let query = if list.follows_queue() {
            let mut query = self.query(&self.sql.list_live_end);
            for _ in LIVE_TABLES {
                query = query.bind(newest.seq).bind(count);
            }
            query.bind(count - 1)
        } else {
            let mut query = self.query(&self.sql.list_end);
            for place in PLACES {
                query = at(query, place, list).bind(newest.id).bind(count - 1);
            }
            query
        };
        Ok(self.marks(query).await?.pop())
    }

    async fn within(&self, list: &List, span: Span) -> Result<Vec<Mark>> {
        let is_live = list.follows_queue();
        let mut query = self
            .query(if is_live { &self.sql.list_live } else { &self.sql.list })
            .bind(list.status.map(status_code))
            .bind(list.topic.clone())
            .bind(list.topic_prefix.clone())
            .bind(list.tenant.clone())
            .bind(list.aggregate_type.clone())
            .bind(list.aggregate_id.clone())
            .bind(list.ordering_key.clone())
            .bind(list.since.map(Timestamp::as_micros))
            .bind(list.until.map(Timestamp::as_micros))
            .bind(list.error.clone())
            .bind(list.min_attempts)
            .bind(list.reason.map(DeadReason::code));
        let Span { newest, oldest, limit, reach } = span;
        if is_live {
            for _ in LIVE_TABLES {
                query = query.bind(oldest.seq).bind(newest.seq).bind(reach);
            }
        } else {
            for place in PLACES {
                query = at(query, place, list).bind(oldest.id).bind(newest.id).bind(reach);
            }
        }
        self.marks(query.bind(limit)).await
    }

    async fn at(&self, id: MessageId) -> Result<Option<Mark>> {
        Ok(self.marks(self.query(&self.sql.list_at).bind(id.as_uuid())).await?.pop())
    }
}

impl MySqlStore {
    pub(super) async fn list_page(&self, list: &List) -> Result<Page> {
        let found = listing::find(self, list).await?;
        let records = self.records("list", &found.ids, Payloads::Left).await?;
        Ok(found.page(records))
    }

    async fn marks(&self, query: Arguments) -> Result<Vec<Mark>> {
        let rows = self.engine_rows("list", query).await?;
        let mark = |row: &MySqlRow| -> sqlx::Result<Mark> {
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

/// The places in the order of the statements.
const PLACES: [Place; 4] =
    [Place::Messages, Place::DeadLetters, Place::Aggregate, Place::OrderingKey];

/// The tables of live rows in the order of the statements.
const LIVE_TABLES: [&str; 3] = ["queue", "ordered", "parked"];

type Arguments = Query<'static, MySql, MySqlArguments>;

/// The arguments that say whether a place is meant, and what is looked for there.
fn at(query: Arguments, place: Place, list: &List) -> Arguments {
    let query = query.bind(Place::of(list).code());
    match place {
        Place::Messages | Place::DeadLetters | Place::Live => query,
        Place::Aggregate => query.bind(list.aggregate_type.clone()).bind(list.aggregate_id.clone()),
        Place::OrderingKey => query.bind(list.ordering_key.clone()),
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
        payload_bytes: count(row, "payload_bytes")?,
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

pub(super) fn owner(row: &MySqlRow, column: &str) -> sqlx::Result<Option<OwnerToken>> {
    let owner: Option<Uuid> = row.try_get(column)?;
    Ok(owner.and_then(|owner| OwnerToken::try_from(owner).ok()))
}
