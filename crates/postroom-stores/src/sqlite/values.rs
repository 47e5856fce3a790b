//! The parameters of the statements that publish, for our driver and for others.

use postroom_core::store::{Birth, Entry, Paused};
use postroom_core::{Message, Timestamp};
use serde_json::json;
use uuid::Uuid;

/// A value as SQLite knows it.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "these are SQLite's own names")]
pub enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    fn text(text: Option<&str>) -> Self {
        text.map_or(Self::Null, |text| Self::Text(text.to_owned()))
    }

    fn time(time: Option<Timestamp>) -> Self {
        time.map_or(Self::Null, |time| Self::Integer(time.as_micros()))
    }

    pub(super) fn uuid(uuid: Uuid) -> Self {
        Self::Blob(uuid.as_bytes().to_vec())
    }
}

/// The parameters of `append_key.sql`, for a message with a key.
pub(super) fn key(message: &Message, now: Timestamp) -> Option<[Value; 4]> {
    let key = message.unique_key()?;
    Some([
        Value::Blob(key.to_vec()),
        Value::uuid(message.id().as_uuid()),
        Value::Integer(now.as_micros()),
        Value::Blob(message.content_hash().to_vec()),
    ])
}

/// The parameters of `append_lookup.sql`.
pub(super) fn lookup(message: &Message) -> [Value; 2] {
    let key = message.unique_key().map_or(Value::Null, |key| Value::Blob(key.to_vec()));
    [Value::uuid(message.id().as_uuid()), key]
}

/// The parameters of `append.sql` for one message, and its place if it has one already.
pub(super) fn message(message: &Message, seq: Option<i64>, now: Timestamp) -> [Value; 21] {
    let content_type = Some(message.content_type());
    let key = message.idempotency_key();
    let origin = message.origin();
    [
        seq.map_or(Value::Null, Value::Integer),
        Value::uuid(message.id().as_uuid()),
        Value::text(Some(message.topic().as_str())),
        Value::Blob(message.payload().to_vec()),
        Value::text(content_type.filter(|text| *text != Message::DEFAULT_CONTENT_TYPE)),
        Value::text(message.headers().to_json().as_deref()),
        Value::text(message.aggregate_type().map(AsRef::as_ref)),
        Value::text(message.aggregate_id().map(AsRef::as_ref)),
        Value::text(message.ordering_key().map(AsRef::as_ref)),
        Value::text(message.tenant_id().map(AsRef::as_ref)),
        Value::text(message.correlation_id().map(AsRef::as_ref)),
        Value::text(message.causation_id().map(AsRef::as_ref)),
        key.map_or(Value::Null, |key| Value::uuid(key.as_uuid())),
        Value::time(Some(message.occurred_at().unwrap_or(now))),
        Value::time(message.due().map(|due| due.resolve(now))),
        Value::time(message.expires().map(|at| at.resolve(now))),
        Value::Integer(message.priority().into()),
        Value::time(Some(now)),
        Value::text(origin.map(|origin| origin.source.as_ref())),
        Value::text(origin.map(|origin| origin.message_id.as_ref())),
        Value::text(origin.map(|origin| origin.consumer.as_ref())),
    ]
}

/// An element of what `append_place.sql` and `append_park.sql` take, and whether it is born leased.
pub(super) fn place(
    entry: &Entry,
    seq: i64,
    paused: &Paused,
    now: Timestamp,
) -> (serde_json::Value, bool) {
    let message = &entry.message;
    let lane = message.lane();
    let wake_at = message.due().map(|due| due.resolve(now)).filter(|due| *due > now);
    let lease = match entry.birth {
        Birth::Leased { owner, token, lease }
            if wake_at.is_none() && lane.is_none() && !paused.covers(message.topic_hash()) =>
        {
            Some((owner, token, now.saturating_add(lease)))
        }
        _ => None,
    };
    let place = json!({
        "seq": seq,
        "id": message.id().as_uuid().simple().to_string(),
        "slot": lane.map(|lane| lane.slot),
        "key_hash": lane.map(|lane| lane.key_hash),
        "tenant_hash": message.tenant_hash(),
        "topic_hash": message.topic_hash(),
        "priority": message.priority(),
        "token": lease.map(|(_, token, _)| token.as_uuid().simple().to_string()),
        "owner": lease.map(|(owner, _, _)| owner.as_uuid().simple().to_string()),
        "locked_until": lease.map(|(_, _, until)| until.as_micros()),
        "wake_at": wake_at.map(Timestamp::as_micros),
        "expires_at": message.expires().map(|at| at.resolve(now).as_micros()),
    });
    (place, lease.is_some())
}
