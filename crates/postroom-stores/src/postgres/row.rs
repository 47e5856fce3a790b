//! Rows of PostgreSQL as the shared types.

use postroom_core::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{ColumnIndex, Row};

use super::time::PgTime;
use crate::row::StoredMessage;

/// Where a column is. To look for a name costs more than to read most values.
#[derive(Debug)]
enum Column {
    Named(&'static str),
    At(usize),
}

impl ColumnIndex<PgRow> for Column {
    fn index(&self, row: &PgRow) -> sqlx::Result<usize> {
        match self {
            Self::Named(name) => name.index(row),
            Self::At(place) => place.index(row),
        }
    }
}

/// The message columns of a row that selects them by their own names.
pub(super) fn stored_message(row: &PgRow) -> sqlx::Result<StoredMessage> {
    read_message(row, Column::Named)
}

/// The same, of a claim: it has them next to each other, in this order.
pub(super) fn claimed_message(row: &PgRow) -> sqlx::Result<StoredMessage> {
    let mut places = "id".index(row)?..;
    read_message(row, |name| places.next().map_or(Column::Named(name), Column::At))
}

fn read_message(
    row: &PgRow,
    mut column: impl FnMut(&'static str) -> Column,
) -> sqlx::Result<StoredMessage> {
    Ok(StoredMessage {
        id: row.try_get(column("id"))?,
        topic: row.try_get(column("topic"))?,
        payload: row.try_get(column("payload"))?,
        content_type: row.try_get(column("content_type"))?,
        headers: row.try_get(column("headers"))?,
        aggregate_type: row.try_get(column("aggregate_type"))?,
        aggregate_id: row.try_get(column("aggregate_id"))?,
        ordering_key: row.try_get(column("ordering_key"))?,
        tenant_id: row.try_get(column("tenant_id"))?,
        correlation_id: row.try_get(column("correlation_id"))?,
        causation_id: row.try_get(column("causation_id"))?,
        idempotency_key: row.try_get(column("idempotency_key"))?,
        occurred_at: time(row, column("occurred_at"))?,
        due_at: time_or_none(row, column("due_at"))?,
        expires_at: time_or_none(row, column("expires_at"))?,
        priority: row.try_get(column("priority"))?,
        source: row.try_get(column("source"))?,
        source_id: row.try_get(column("source_id"))?,
        consumer: row.try_get(column("consumer"))?,
    })
}

pub(super) fn time(row: &PgRow, column: impl ColumnIndex<PgRow>) -> sqlx::Result<Timestamp> {
    row.try_get::<PgTime, _>(column).map(|time| time.0)
}

pub(super) fn time_or_none(
    row: &PgRow,
    column: impl ColumnIndex<PgRow>,
) -> sqlx::Result<Option<Timestamp>> {
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
