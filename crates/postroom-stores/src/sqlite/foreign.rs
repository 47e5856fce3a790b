//! Publishing with a driver that is not ours: the statements of this store's own append with their
//! parameters, for one message at a time. `postroom-adapters` is built on this; it is not for
//! people and may change.

use postroom_core::store::{Birth, Entry, Paused};
use postroom_core::{Clock, Error, Message, Result, Timestamp};
use serde_json::json;
use sqlx::SqlStr;
use uuid::Uuid;

use super::classify::meaning;
pub use super::first::First;
use super::first::InTheWay;
use super::sql::Statements;
pub use super::values::Value;
use super::values::{self, place};
use crate::StoreConfig;
use crate::row::StoredMessage;

/// A statement and its parameters in order.
pub type Bound<'a> = (&'a str, Vec<Value>);

/// The statements of one outbox.
#[derive(Debug)]
pub struct Publisher {
    sql: Statements,
    clock: Clock,
}

impl Publisher {
    /// For the configured names.
    ///
    /// # Errors
    /// `Invalid` when the schema or the prefix is not a plain identifier.
    pub fn new(config: &StoreConfig) -> Result<Self> {
        Ok(Self { sql: Statements::new(&config.names()?), clock: config.clock.clone() })
    }

    /// The time of writing, for all statements of one message.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes the key of a message that has one. No row changed: somebody was first.
    #[must_use]
    pub fn take_key(&self, message: &Message, now: Timestamp) -> Option<Bound<'_>> {
        Some(bound(&self.sql.append_key, values::key(message, now)?))
    }

    /// Writes the message and answers with its `seq`. No row: its id is taken.
    #[must_use]
    pub fn write(&self, message: &Message, now: Timestamp) -> Bound<'_> {
        bound(&self.sql.append, values::message(message, None, now))
    }

    /// Gives the written message its place.
    #[must_use]
    pub fn place(&self, message: &Message, seq: i64, now: Timestamp) -> [Bound<'_>; 2] {
        let entry = Entry { message: message.clone(), birth: Birth::Ready };
        let (place, _) = place(&entry, seq, &Paused::default(), now);
        let places = Value::Text(json!([place]).to_string());
        [&self.sql.append_place, &self.sql.append_park].map(|sql| bound(sql, [places.clone()]))
    }

    /// Looks up who was first. One row; read it with [`first_one`].
    #[must_use]
    pub fn look_up(&self, message: &Message) -> Bound<'_> {
        bound(&self.sql.append_lookup, values::lookup(message))
    }
}

fn bound(sql: &SqlStr, values: impl IntoIterator<Item = Value>) -> Bound<'_> {
    (sql.as_str(), values.into_iter().collect())
}

/// What the row of [`Publisher::look_up`] means; `column` gives the value of a column.
///
/// # Errors
/// `IdTaken` when the id belongs to a message with other content.
pub fn first_one(message: &Message, column: impl Fn(&str) -> Value) -> Result<First> {
    let found = InTheWay {
        key_message_id: uuid(column("key_message_id")),
        key_content: bytes(column("key_content")),
        gone: column("gone_at") != Value::Null,
        seq: integer(column("seq")),
        placed: column("placed") == Value::Integer(1),
    };
    found.first_one(message, || stored(column).decode())
}

/// The error for a result code of SQLite, extended or not; `text` is SQLite's own.
#[must_use]
pub fn refused(code: i32, text: &str) -> Error {
    let (kind, problem) = meaning(code & 0xff, text);
    Error::new(kind, problem)
}

/// A column of another type is one that the message does not have, and then its content differs.
fn stored(column: impl Fn(&str) -> Value) -> StoredMessage {
    let time = |name: &str| integer(column(name)).map(Timestamp::from_micros);
    StoredMessage {
        id: uuid(column("id")).unwrap_or_default(),
        topic: text(column("topic")).unwrap_or_default(),
        payload: bytes(column("payload")).unwrap_or_default(),
        content_type: text(column("content_type")),
        headers: text(column("headers")),
        aggregate_type: text(column("aggregate_type")),
        aggregate_id: text(column("aggregate_id")),
        ordering_key: text(column("ordering_key")),
        tenant_id: text(column("tenant_id")),
        correlation_id: text(column("correlation_id")),
        causation_id: text(column("causation_id")),
        idempotency_key: uuid(column("idempotency_key")),
        occurred_at: time("occurred_at").unwrap_or(Timestamp::FAR_FUTURE),
        due_at: time("due_at"),
        expires_at: time("expires_at"),
        priority: integer(column("priority")).and_then(|n| n.try_into().ok()).unwrap_or_default(),
        source: text(column("source")),
        source_id: text(column("source_id")),
        consumer: text(column("consumer")),
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

fn integer(value: Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(number),
        _ => None,
    }
}

fn uuid(value: Value) -> Option<Uuid> {
    Uuid::from_slice(&bytes(value)?).ok()
}
