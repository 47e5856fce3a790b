//! Messages that other languages put into a table by a plain INSERT: claims take them in.
//!
//! SQLite has no SHA-256, so a client can not write a message with its keys and its order itself.
//! It does get the message's place: rows of that table and messages share one sequence. As long as
//! rows are left, a claim therefore takes no ordered messages, which might be behind them.

use std::collections::HashMap;
use std::error::Error as _;

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{Birth, Entry};
use postroom_core::{Error, ErrorKind, Message, MessageId, OwnerToken, Result, Timestamp};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use uuid::Uuid;

use super::SqliteStore;
use super::admin::{optional_timestamp, timestamp};
use super::append::{append_at, bind};
use super::claim::Counters;
use super::classify::classify;
use super::values::{self, Value};
use crate::row::StoredMessage;

/// A claim takes in this many rows and about this many bytes, so that others can write soon.
const MAX_ROWS: i64 = 1_000;
const MAX_BYTES: i64 = 4 * 1024 * 1024;

/// What a claim has taken in.
#[derive(Debug, Default)]
pub(super) struct TakenIn {
    /// Rows that are dead letters now.
    pub(super) dead: u32,
    /// Whether rows are left.
    pub(super) more: bool,
}

/// Messages on their way in, and the places that they have.
#[derive(Default)]
struct Group {
    entries: Vec<Entry>,
    places: HashMap<MessageId, i64>,
}

/// A transaction that takes rows in.
struct Taking<'a> {
    store: &'a SqliteStore,
    conn: &'a mut SqliteConnection,
    by: OwnerToken,
    now: Timestamp,
    dead: u32,
}

impl SqliteStore {
    /// Takes in the first rows. A duplicate vanishes, as publishing it would have been a success; a
    /// row that is no message becomes a dead letter.
    pub(super) async fn take_in(
        &self,
        conn: &mut SqliteConnection,
        by: OwnerToken,
        now: Timestamp,
    ) -> Result<TakenIn> {
        let rows = sqlx::query(self.sql().incoming.clone()).bind(MAX_ROWS).bind(MAX_BYTES);
        let rows = rows.fetch_all(&mut *conn).await.map_err(classify)?;
        let Some(last) = rows.last() else { return Ok(TakenIn::default()) };
        let last = place(last)?;
        let mut taking = Taking { store: self, conn, by, now, dead: 0 };
        let mut group = Group::default();
        for row in &rows {
            let seq = place(row)?;
            match read(row).and_then(StoredMessage::decode) {
                Ok(message) => {
                    // Within one append ids are different.
                    if group.places.contains_key(&message.id()) {
                        taking.publish(std::mem::take(&mut group)).await?;
                    }
                    group.places.insert(message.id(), seq);
                    group.entries.push(Entry { message, birth: Birth::Ready });
                }
                Err(error) => taking.bury_remains(row, seq, &error).await?,
            }
        }
        taking.publish(group).await?;
        let Taking { conn, dead, .. } = taking;
        let taken = sqlx::query(self.sql().incoming_end.clone()).bind(last);
        taken.execute(&mut *conn).await.map_err(classify)?;
        let more = sqlx::query_scalar(self.sql().incoming_more.clone());
        Ok(TakenIn { dead, more: more.fetch_one(conn).await.map_err(classify)? })
    }
}

impl Taking<'_> {
    async fn publish(&mut self, group: Group) -> Result<()> {
        match self.append(&group.entries, &group.places).await {
            // It has written nothing, so who has the taken id is found out one by one.
            Err(error) if error.kind() == ErrorKind::IdTaken => {}
            answer => return answer,
        }
        for entry in group.entries {
            match self.append(std::slice::from_ref(&entry), &group.places).await {
                Err(error) if error.kind() == ErrorKind::IdTaken => {
                    let seq = group.places[&entry.message.id()];
                    self.bury_under_other_id(&entry.message, seq, &error).await?;
                }
                answer => answer?,
            }
        }
        Ok(())
    }

    async fn append(&mut self, entries: &[Entry], places: &HashMap<MessageId, i64>) -> Result<()> {
        append_at(self.store.sql(), self.conn, entries, places, self.now).await.map(drop)
    }

    /// A message whose id belongs to another one. It can be replayed, under an id of its own.
    async fn bury_under_other_id(
        &mut self,
        message: &Message,
        seq: i64,
        error: &Error,
    ) -> Result<()> {
        let mut values = values::message(message, Some(seq), self.now);
        let id = MessageId::new();
        values[1] = Value::uuid(id.as_uuid());
        self.bury(values, (id, seq), DeadReason::Permanent, error).await
    }

    /// A row that is no message, with what people can be shown of it.
    async fn bury_remains(&mut self, row: &SqliteRow, seq: i64, error: &Error) -> Result<()> {
        let id = MessageId::new();
        let values = remains(row, id, seq, self.now).map_err(classify)?;
        self.bury(values, (id, seq), DeadReason::Undecodable, error).await
    }

    async fn bury(
        &mut self,
        values: [Value; 21],
        (id, seq): (MessageId, i64),
        reason: DeadReason,
        error: &Error,
    ) -> Result<()> {
        let (store, by, now) = (self.store, self.by, self.now);
        let insert = bind(sqlx::query(store.sql().append.clone()), values);
        insert.fetch_all(&mut *self.conn).await.map_err(classify)?;
        sqlx::query(store.sql().incoming_error.clone())
            .bind(id.as_uuid())
            .bind(now.as_micros())
            .bind(by.as_uuid())
            .bind(with_cause(error))
            .execute(&mut *self.conn)
            .await
            .map_err(classify)?;
        let item = Counters { seq, attempts: 0, lost: 0 };
        store.bury(self.conn, &item, false, reason, Some(by), now).await?;
        self.dead += 1;
        Ok(())
    }
}

fn with_cause(error: &Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn place(row: &SqliteRow) -> Result<i64> {
    row.try_get("seq").map_err(classify)
}

/// The columns of a row, each of its proper type.
fn read(row: &SqliteRow) -> Result<StoredMessage> {
    let read = || -> sqlx::Result<StoredMessage> {
        let occurred_at = optional_timestamp(row, "occurred_at")?;
        Ok(StoredMessage {
            id: uuid(row, "id")?.unwrap_or_else(|| MessageId::new().as_uuid()),
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
            idempotency_key: uuid(row, "idempotency_key")?,
            occurred_at: occurred_at.map_or_else(|| timestamp(row, "inserted_at"), Ok)?,
            due_at: optional_timestamp(row, "due_at")?,
            expires_at: optional_timestamp(row, "expires_at")?,
            priority: row.try_get("priority")?,
            source: None,
            source_id: None,
            consumer: None,
        })
    };
    read().map_err(classify)
}

/// As 16 bytes, or as text.
fn uuid(row: &SqliteRow, column: &str) -> sqlx::Result<Option<Uuid>> {
    let Some(bytes) = row.try_get::<Option<Vec<u8>>, _>(column)? else { return Ok(None) };
    let parsed = Uuid::from_slice(&bytes).or_else(|_| Uuid::try_parse_ascii(&bytes));
    let wrong = |source| sqlx::Error::ColumnDecode { index: column.to_owned(), source };
    parsed.map(Some).map_err(|error| wrong(Box::new(error)))
}

/// The parameters of `append.sql` for whatever the row has: all of it is text of a kind.
fn remains(row: &SqliteRow, id: MessageId, seq: i64, now: Timestamp) -> sqlx::Result<[Value; 21]> {
    let bytes = |column| row.try_get_unchecked::<Option<Vec<u8>>, _>(column);
    let text = |column| -> sqlx::Result<Value> {
        let text = bytes(column)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(text.map_or(Value::Null, Value::Text))
    };
    Ok([
        Value::Integer(seq),
        Value::uuid(id.as_uuid()),
        text("topic")?,
        Value::Blob(bytes("payload")?.unwrap_or_default()),
        text("content_type")?,
        text("headers")?,
        text("aggregate_type")?,
        text("aggregate_id")?,
        text("ordering_key")?,
        text("tenant_id")?,
        text("correlation_id")?,
        text("causation_id")?,
        Value::Null,
        Value::Integer(now.as_micros()),
        Value::Null,
        Value::Null,
        Value::Integer(0),
        Value::Integer(now.as_micros()),
        Value::Null,
        Value::Null,
        Value::Null,
    ])
}
