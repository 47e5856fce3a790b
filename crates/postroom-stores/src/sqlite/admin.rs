//! For people: lists, details, counts. Also the decoding of rows.

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{
    AdminStore, Attempt, AuditEntry, AuditRecord, BlockedKey, BoxFuture, Changed, Detail, Failing,
    JoinMember, JoinRecord, List, ListJoins, Migrated, Node, Page, Pause, PauseRecord, Record,
    Stats, TopicStats,
};
use postroom_core::{JoinId, MessageId, OwnerToken, Result, Timestamp, Topic, WorkId};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Row, Sqlite};
use uuid::Uuid;

use super::SqliteStore;
use super::classify::classify;
use crate::listing::{self, Lists, Mark, Place, Span};
use crate::row::{Payloads, StoredMessage, state, status_code};

impl AdminStore for SqliteStore {
    fn list<'a>(&'a self, list: &'a List) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            let found = listing::find(self, list).await?;
            let records = self.records(&self.inner.reader, &found.ids, Payloads::Left).await?;
            Ok(found.page(records))
        })
    }

    fn get(&self, id: MessageId) -> BoxFuture<'_, Result<Option<Detail>>> {
        Box::pin(async move {
            let mut found = self.records(&self.inner.reader, &[id], Payloads::Read).await?;
            let Some(record) = found.remove(&id) else { return Ok(None) };
            let attempts = sqlx::query(self.sql().attempts.clone())
                .bind(id.as_uuid())
                .fetch_all(&self.inner.reader)
                .await
                .map_err(classify)?;
            let history = attempts.iter().map(attempt).collect::<sqlx::Result<_>>();
            Ok(Some(Detail { record, history: history.map_err(classify)? }))
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(async move {
            let now = self.now();
            let row = sqlx::query(self.sql().stats.clone())
                .bind(now.as_micros())
                .fetch_one(&self.inner.reader)
                .await
                .map_err(classify)?;
            stats(&row, now).map_err(classify)
        })
    }

    fn replay<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>> {
        Box::pin(self.do_replay(ids))
    }

    fn discard<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>> {
        Box::pin(self.do_discard(ids))
    }

    fn pause<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.do_pause(pause))
    }

    fn resume<'a>(&'a self, topic: Option<&'a Topic>) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.do_resume(topic))
    }

    fn pauses(&self) -> BoxFuture<'_, Result<Vec<PauseRecord>>> {
        Box::pin(self.list_pauses())
    }

    fn join(&self, id: JoinId) -> BoxFuture<'_, Result<Option<JoinRecord>>> {
        Box::pin(self.get_join(id))
    }

    fn joins<'a>(&'a self, list: &'a ListJoins) -> BoxFuture<'a, Result<Vec<JoinRecord>>> {
        Box::pin(self.list_joins(list))
    }

    fn join_members(
        &self,
        id: JoinId,
        after: Option<MessageId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<JoinMember>>> {
        Box::pin(self.list_members(id, after, limit))
    }

    fn cancel_join(&self, id: JoinId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.end_join(id))
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        Box::pin(self.list_nodes())
    }

    fn topics(&self, limit: u32) -> BoxFuture<'_, Result<Vec<TopicStats>>> {
        Box::pin(self.count_topics(limit))
    }

    fn failing(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Failing>>> {
        Box::pin(self.list_failing(limit))
    }

    fn blocked_keys(&self, limit: u32) -> BoxFuture<'_, Result<Vec<BlockedKey>>> {
        Box::pin(self.list_blocked(limit))
    }

    fn write_audit<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.add_audit(entry))
    }

    fn audit(&self, before: Option<i64>, limit: u32) -> BoxFuture<'_, Result<Vec<AuditRecord>>> {
        Box::pin(self.list_audit(before, limit))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migrated>> {
        Box::pin(self.do_migrate())
    }

    fn check_schema(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.do_check_schema())
    }
}

impl Lists for SqliteStore {
    async fn end(&self, list: &List, newest: Mark, count: u32) -> Result<Option<Mark>> {
        let query = match Place::of(list) {
            Place::Live => sqlx::query(self.sql().list_live_end.clone())
                .bind(list.status.map(status_code))
                .bind(newest.seq)
                .bind(count - 1),
            place => sqlx::query(self.sql().list_end.clone())
                .bind(place.code())
                .bind(newest.id)
                .bind(count - 1)
                .bind(&list.aggregate_type)
                .bind(&list.aggregate_id)
                .bind(&list.ordering_key),
        };
        Ok(self.marks(query).await?.pop())
    }

    async fn within(&self, list: &List, span: Span) -> Result<Vec<Mark>> {
        let place = Place::of(list);
        let sql = self.sql();
        let text = if place == Place::Live { &sql.list_live } else { &sql.list };
        let query = sqlx::query(text.clone())
            .bind(list.status.map(status_code))
            .bind(&list.topic)
            .bind(&list.topic_prefix)
            .bind(&list.tenant)
            .bind(&list.aggregate_type)
            .bind(&list.aggregate_id)
            .bind(&list.ordering_key)
            .bind(list.since.map(Timestamp::as_micros))
            .bind(list.until.map(Timestamp::as_micros))
            .bind(&list.error)
            .bind(list.min_attempts)
            .bind(list.reason.map(DeadReason::code));
        let Span { newest, oldest, limit, reach } = span;
        self.marks(match place {
            Place::Live => query.bind(oldest.seq).bind(newest.seq).bind(limit).bind(reach),
            place => {
                query.bind(oldest.id).bind(newest.id).bind(limit).bind(reach).bind(place.code())
            }
        })
        .await
    }

    async fn at(&self, id: MessageId) -> Result<Option<Mark>> {
        let query = sqlx::query(self.sql().list_at.clone()).bind(id.as_uuid());
        Ok(self.marks(query).await?.pop())
    }
}

impl SqliteStore {
    async fn marks(&self, query: Query<'_, Sqlite, SqliteArguments>) -> Result<Vec<Mark>> {
        let rows = query.fetch_all(&self.inner.reader).await.map_err(classify)?;
        let mark = |row: &SqliteRow| -> sqlx::Result<Mark> {
            // Only lists of live rows tell places in the queue.
            let seq = if row.len() > 1 { row.try_get("seq")? } else { 0 };
            Ok(Mark { id: row.try_get("id")?, seq })
        };
        rows.iter().map(mark).collect::<sqlx::Result<_>>().map_err(classify)
    }
}

pub(super) fn record(row: &SqliteRow) -> sqlx::Result<Record> {
    let settled: Option<i16> = row.try_get("state")?;
    let leased: bool = row.try_get("leased")?;
    let state = state(settled, leased);
    let locked_until = optional_timestamp(row, "locked_until")?;
    let waits_in_queue = locked_until.filter(|_| !leased);
    let last_error: Option<String> = row.try_get("last_error")?;
    let owner = |column| -> sqlx::Result<Option<OwnerToken>> {
        let uuid: Option<Uuid> = row.try_get(column)?;
        Ok(uuid.and_then(|uuid| OwnerToken::try_from(uuid).ok()))
    };
    Ok(Record {
        message: stored_message(row).ok().and_then(|stored| stored.decode().ok()),
        payload_bytes: row.try_get("payload_bytes")?,
        id: MessageId::from(row.try_get::<Uuid, _>("id")?),
        work: WorkId::new(row.try_get("seq")?),
        topic: row.try_get("topic")?,
        tenant_id: row.try_get("tenant_id")?,
        state,
        reason: row.try_get::<Option<i16>, _>("reason")?.and_then(DeadReason::from_code),
        created_at: timestamp(row, "created_at")?,
        attempts: row.try_get::<Option<_>, _>("attempts")?.unwrap_or(0),
        lost: row.try_get::<Option<_>, _>("lost")?.unwrap_or(0),
        next_attempt_at: optional_timestamp(row, "wake_at")?.or(waits_in_queue),
        locked_until: locked_until.filter(|_| leased),
        owner: owner("owner")?,
        last_error: last_error.filter(|_| state != State::Done),
        processed_at: optional_timestamp(row, "settled_at")?,
        processed_by: owner("settled_by")?,
    })
}

fn attempt(row: &SqliteRow) -> sqlx::Result<Attempt> {
    let by: Option<Uuid> = row.try_get("by_owner")?;
    Ok(Attempt {
        at: timestamp(row, "at")?,
        by: by.and_then(|uuid| OwnerToken::try_from(uuid).ok()),
        lease_lost: row.try_get::<i16, _>("kind")? == 2,
        error: row.try_get("error")?,
    })
}

fn stats(row: &SqliteRow, now: Timestamp) -> sqlx::Result<Stats> {
    let count = |column| row.try_get::<i64, _>(column).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Stats {
        ready: count("ready")?,
        waiting: count("waiting")?,
        leased: count("leased")?,
        failed: count("failed")?,
        done: count("done")?,
        dead: count("dead")?,
        oldest_ready: optional_timestamp(row, "oldest_ready")?.map(|at| now.since(at)),
    })
}

pub(super) fn timestamp(row: &SqliteRow, column: &str) -> sqlx::Result<Timestamp> {
    row.try_get(column).map(Timestamp::from_micros)
}

pub(super) fn optional_timestamp(row: &SqliteRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_micros))
}

/// The columns of a message. A value of another type than it should be is an error.
pub(super) fn stored_message(row: &SqliteRow) -> Result<StoredMessage> {
    let read = || -> sqlx::Result<StoredMessage> {
        Ok(StoredMessage {
            id: row.try_get("id")?,
            topic: row.try_get("topic")?,
            payload: row.try_get("payload")?,
            content_type: row.try_get("content_type")?,
            headers: row.try_get("headers")?,
            aggregate_type: row.try_get("aggregate_type")?,
            aggregate_id: row.try_get("aggregate_id")?,
            ordering_key: row.try_get("ordering_key")?,
            tenant_id: row.try_get("tenant_id")?,
            correlation_id: row.try_get("correlation_id")?,
            causation_id: row.try_get("causation_id")?,
            idempotency_key: row.try_get("idempotency_key")?,
            occurred_at: timestamp(row, "occurred_at")?,
            due_at: optional_timestamp(row, "due_at")?,
            expires_at: optional_timestamp(row, "expires_at")?,
            priority: row.try_get("priority")?,
            source: row.try_get("source")?,
            source_id: row.try_get("source_id")?,
            consumer: row.try_get("consumer")?,
        })
    };
    read().map_err(classify)
}
