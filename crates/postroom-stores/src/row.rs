//! A message as it lies in a table, the same columns in every database.

use bytes::Bytes;
use postroom_core::{
    Headers, IdempotencyKey, Message, MessageId, Origin, Result, Timestamp, When,
    lifecycle::State,
    store::{Block, Status},
};
use uuid::Uuid;

/// The columns of `<box>_message`.
#[derive(Debug)]
pub(crate) struct StoredMessage {
    pub(crate) id: Uuid,
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) content_type: Option<String>,
    pub(crate) headers: Option<String>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) ordering_key: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) causation_id: Option<String>,
    pub(crate) idempotency_key: Option<Uuid>,
    pub(crate) occurred_at: Timestamp,
    pub(crate) due_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) priority: i16,
    pub(crate) source: Option<String>,
    pub(crate) source_id: Option<String>,
    pub(crate) consumer: Option<String>,
}

impl StoredMessage {
    /// Back to a message. Rows that another language wrote may break a limit; then this says which.
    pub(crate) fn decode(self) -> Result<Message> {
        let mut builder = Message::builder(self.topic)
            .id(MessageId::from(self.id))
            .payload(Bytes::from(self.payload))
            .occurred_at(self.occurred_at.into())
            .priority(self.priority);
        if let Some(json) = self.headers {
            for (name, value) in Headers::from_json(&json)?.iter() {
                builder = builder.header(name, value);
            }
        }
        if let Some(text) = self.content_type {
            builder = builder.content_type(text);
        }
        if let Some(text) = self.aggregate_type {
            builder = builder.aggregate_type(text);
        }
        if let Some(text) = self.aggregate_id {
            builder = builder.aggregate_id(text);
        }
        if let Some(text) = self.ordering_key {
            builder = builder.ordering_key(text);
        }
        if let Some(text) = self.tenant_id {
            builder = builder.tenant_id(text);
        }
        if let Some(text) = self.correlation_id {
            builder = builder.correlation_id(text);
        }
        if let Some(text) = self.causation_id {
            builder = builder.causation_id(text);
        }
        if let Some(key) = self.idempotency_key {
            builder = builder.idempotency_key(IdempotencyKey::from(key));
        }
        if let Some(time) = self.due_at {
            builder = builder.due(When::At(time));
        }
        if let Some(time) = self.expires_at {
            builder = builder.expires(When::At(time));
        }
        if let (Some(source), Some(id), Some(consumer)) =
            (self.source, self.source_id, self.consumer)
        {
            builder = builder.origin(Origin::new(source, id, consumer)?);
        }
        builder.build()
    }
}

/// Whether the payloads of messages are read from the database, or only how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payloads {
    Read,
    Left,
}

/// The number under which a settled row keeps its state.
pub(crate) const DONE: i16 = 1;
/// See [`DONE`].
#[cfg(feature = "sqlite")]
pub(crate) const DEAD: i16 = 2;

/// How a settlement is passed to SQL.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod kind {
    pub(crate) const DONE: i16 = 1;
    pub(crate) const DEAD: i16 = 2;
    pub(crate) const RETRY: i16 = 3;
    pub(crate) const RELEASE: i16 = 4;
}

/// What a listing filters by, as SQL knows it.
pub(crate) fn status_code(status: Status) -> i16 {
    match status {
        Status::Pending => 1,
        Status::Leased => 2,
        Status::Failed => 3,
        Status::Done => 4,
        Status::Dead => 5,
    }
}

/// For so long a dispatcher that fell silent is remembered. The statements know it too.
#[cfg(feature = "sqlite")]
pub(crate) const REMEMBERED: std::time::Duration = std::time::Duration::from_hours(24);

/// Why a key stands still: until then, or until somebody does something.
pub(crate) fn block(until: Option<Timestamp>) -> Block {
    until.map_or(Block::Halted, |until| Block::Retry { until })
}

/// A time span or a count as a database takes it.
pub(crate) fn signed(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

/// The state of a row from what the tables say of it.
pub(crate) fn state(settled: Option<i16>, leased: bool) -> State {
    match settled {
        Some(DONE) => State::Done,
        Some(_) => State::Dead,
        None if leased => State::Leased,
        None => State::Ready,
    }
}
