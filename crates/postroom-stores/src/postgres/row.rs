//! Rows of PostgreSQL as the shared types.

use postroom_core::Timestamp;
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::time::PgTime;
use crate::row::StoredMessage;

/// The message columns of a row that selects them by their own names.
pub(super) fn stored_message(row: &PgRow) -> sqlx::Result<StoredMessage> {
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
        occurred_at: time(row, "occurred_at")?,
        due_at: time_or_none(row, "due_at")?,
        expires_at: time_or_none(row, "expires_at")?,
        priority: row.try_get("priority")?,
        source: row.try_get("source")?,
        source_id: row.try_get("source_id")?,
        consumer: row.try_get("consumer")?,
    })
}

pub(super) fn time(row: &PgRow, column: &str) -> sqlx::Result<Timestamp> {
    row.try_get::<PgTime, _>(column).map(|time| time.0)
}

pub(super) fn time_or_none(row: &PgRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    row.try_get::<Option<PgTime>, _>(column).map(|time| time.map(|time| time.0))
}

/// A count or counter, which SQL keeps signed.
pub(super) fn count(row: &PgRow, column: &str) -> sqlx::Result<u64> {
    let count: i64 = row.try_get(column)?;
    u64::try_from(count).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// The same, for what is bounded by a batch.
pub(super) fn small_count(row: &PgRow, column: &str) -> sqlx::Result<u32> {
    u32::try_from(count(row, column)?).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// A counter of a work item.
pub(super) fn counter(row: &PgRow, column: &str) -> sqlx::Result<u32> {
    let counter: i32 = row.try_get(column)?;
    u32::try_from(counter).map_err(|error| sqlx::Error::Decode(error.into()))
}
