//! Rows of MySQL as the shared types.

use postroom_core::Timestamp;
use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::row::StoredMessage;

/// The message columns of a row that selects them by their own names.
pub(super) fn stored_message(row: &MySqlRow) -> sqlx::Result<StoredMessage> {
    Ok(StoredMessage {
        id: row.try_get("id")?,
        topic: text(row, "topic")?,
        payload: row.try_get("payload")?,
        content_type: text_or_none(row, "content_type")?,
        headers: text_or_none(row, "headers")?,
        aggregate_type: text_or_none(row, "aggregate_type")?,
        aggregate_id: text_or_none(row, "aggregate_id")?,
        ordering_key: text_or_none(row, "ordering_key")?,
        tenant_id: text_or_none(row, "tenant_id")?,
        correlation_id: text_or_none(row, "correlation_id")?,
        causation_id: text_or_none(row, "causation_id")?,
        idempotency_key: row.try_get("idempotency_key")?,
        occurred_at: time(row, "occurred_at")?,
        due_at: time_or_none(row, "due_at")?,
        expires_at: time_or_none(row, "expires_at")?,
        priority: row.try_get("priority")?,
        source: text_or_none(row, "source")?,
        source_id: text_or_none(row, "source_id")?,
        consumer: text_or_none(row, "consumer")?,
    })
}

/// Text is kept in binary columns, because collations would merge what differs.
pub(super) fn text(row: &MySqlRow, column: &str) -> sqlx::Result<String> {
    let bytes: Vec<u8> = row.try_get(column)?;
    String::from_utf8(bytes).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(super) fn text_or_none(row: &MySqlRow, column: &str) -> sqlx::Result<Option<String>> {
    let bytes: Option<Vec<u8>> = row.try_get(column)?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(super) fn time(row: &MySqlRow, column: &str) -> sqlx::Result<Timestamp> {
    row.try_get(column).map(Timestamp::from_micros)
}

pub(super) fn time_or_none(row: &MySqlRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    let micros: Option<i64> = row.try_get(column)?;
    Ok(micros.map(Timestamp::from_micros))
}

/// A number of whatever width.
pub(super) fn int(row: &MySqlRow, column: &str) -> sqlx::Result<i64> {
    row.try_get(column)
}

pub(super) fn flag(row: &MySqlRow, column: &str) -> sqlx::Result<bool> {
    Ok(int(row, column)? != 0)
}

/// Counts are never negative, and small ones fit.
pub(super) fn counter(row: &MySqlRow, column: &str) -> sqlx::Result<u32> {
    u32::try_from(int(row, column)?).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(super) fn count(row: &MySqlRow, column: &str) -> sqlx::Result<u64> {
    u64::try_from(int(row, column)?).map_err(|error| sqlx::Error::Decode(error.into()))
}
