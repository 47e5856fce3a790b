//! A row of an old table as a message.

use std::collections::BTreeMap;

use postroom::{IdempotencyKey, Message, MessageBuilder, MessageId, Timestamp, When};
use serde::de::IgnoredAny;
use serde_json::Value;
use sqlx::types::Uuid;

use super::shape::{Field, plain};

/// The header with the old id of a message whose id it could not become.
pub(crate) const IMPORTED_ID: &str = "x-imported-id";

/// The namespace of ids that are made of old ones. It never changes: a second run must find them.
const NAMESPACE: Uuid = Uuid::from_u128(0x5b2f_0d53_9c0e_5d6c_8f7b_6a3f_1c92_4e10);

/// A row as it was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct OldRow {
    pub(crate) cells: Vec<(Field, Cell)>,
    /// Nothing when it is null, or longer than is read.
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) payload_bytes: usize,
}

/// A value in one of the forms that [`dialect`](super::dialect) reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(String),
    Bytes(Vec<u8>),
    Time(Timestamp),
}

impl Cell {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (tag, value) = text.split_at_checked(1).ok_or("an empty cell")?;
        match tag {
            "t" => Ok(Self::Text(value.to_owned())),
            "x" => unhex(value).map(Self::Bytes).ok_or_else(|| "odd bytes".to_owned()),
            "m" => {
                let micros = value.parse().map_err(|_| format!("odd time {value:?}"))?;
                Ok(Self::Time(Timestamp::from_micros(micros)))
            }
            _ => Err(format!("odd cell {tag:?}")),
        }
    }

    /// Bytes are the bytes of a UUID, or text, or shown in hexadecimal. `is_id` says what 16 bytes
    /// are that could be both.
    fn text(&self, is_id: bool) -> String {
        let bytes = match self {
            Self::Text(text) => return text.clone(),
            Self::Time(time) => return time.as_micros().to_string(),
            Self::Bytes(bytes) => bytes,
        };
        match (std::str::from_utf8(bytes), Uuid::from_slice(bytes)) {
            (Ok(text), Err(_)) => text.to_owned(),
            (Ok(text), _) if !is_id => text.to_owned(),
            (_, Ok(uuid)) => uuid.to_string(),
            _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    fn time(&self) -> Result<Timestamp, String> {
        match self {
            Self::Time(time) => Ok(*time),
            other => time(&other.text(false)),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pair = |at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).map(pair).collect()
}

/// RFC 3339, the same without a zone (UTC), or seconds, milliseconds or microseconds since 1970.
fn time(text: &str) -> Result<Timestamp, String> {
    let micros = |time: jiff::Timestamp| Timestamp::from_micros(time.as_microsecond());
    if let Ok(number) = text.parse::<i64>() {
        let factor = match number.unsigned_abs() {
            0..100_000_000_000 => 1_000_000,
            100_000_000_000..100_000_000_000_000 => 1_000,
            _ => 1,
        };
        return Ok(Timestamp::from_micros(number.saturating_mul(factor)));
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(micros(time));
    }
    let civil = text.parse::<jiff::civil::DateTime>();
    let zoned = civil.ok().and_then(|civil| jiff::tz::Offset::UTC.to_timestamp(civil).ok());
    zoned.map(micros).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{shown:?} is no time")
    })
}

impl OldRow {
    fn get(&self, field: Field) -> Option<&Cell> {
        self.cells.iter().find(|(found, _)| *found == field).map(|(_, cell)| cell)
    }

    fn text(&self, field: Field) -> Option<String> {
        // Where a table has no null, people write the empty string.
        self.get(field).map(|cell| cell.text(field.is_id())).filter(|text| !text.is_empty())
    }

    fn time(&self, field: Field) -> Result<Option<Timestamp>, String> {
        let time = self.get(field).map(Cell::time).transpose();
        time.map_err(|problem| format!("{}: {problem}", field.name()))
    }

    /// The id as the old table shows it.
    pub(crate) fn old_id(&self) -> String {
        self.text(Field::Id).unwrap_or_else(|| "(without an id)".to_owned())
    }

    /// What is written for it, or why it can not be.
    pub(crate) fn message(&mut self, table: &str, max_payload: usize) -> Result<Message, String> {
        if self.payload_bytes > max_payload {
            let bytes = self.payload_bytes;
            return Err(format!("payload must be at most {max_payload} bytes, got {bytes} bytes"));
        }
        let old = self.text(Field::Id).ok_or("it has no id")?;
        let id = identity(table, self.text(Field::MessageId).as_deref().unwrap_or(&old));
        let key = match self.text(Field::IdempotencyKey) {
            Some(key) => match Uuid::parse_str(&key) {
                Ok(key) => key,
                Err(_) => named(table, &format!("key\0{key}")),
            },
            // The id is as stable as a key can be.
            None => id,
        };
        let payload = self.payload.take().unwrap_or_default();
        let mut message = Message::builder(self.text(Field::Topic).unwrap_or_default())
            .id(MessageId::from(id))
            .idempotency_key(key);
        for (name, value) in self.headers()? {
            message = message.header(name, value);
        }
        if Uuid::parse_str(&old) != Ok(id) {
            message = message.header(IMPORTED_ID, old);
        }
        message = self.texts(message);
        message = match content_type(self.text(Field::ContentType), &payload) {
            Some(content_type) => message.content_type(content_type),
            None => message,
        };
        if let Some(time) = self.time(Field::OccurredAt)? {
            message = message.occurred_at(time.into());
        }
        let due = self.time(Field::DueAt)?.max(self.time(Field::RetryAt)?);
        if let Some(time) = due {
            message = message.due(When::At(time));
        }
        message.payload(payload).build().map_err(|error| error.to_string())
    }

    fn texts(&self, mut message: MessageBuilder) -> MessageBuilder {
        let setters = [
            (
                Field::AggregateType,
                MessageBuilder::aggregate_type as fn(MessageBuilder, String) -> MessageBuilder,
            ),
            (Field::AggregateId, MessageBuilder::aggregate_id),
            (Field::OrderingKey, MessageBuilder::ordering_key),
            (Field::Tenant, MessageBuilder::tenant_id),
            (Field::CorrelationId, MessageBuilder::correlation_id),
            (Field::CausationId, MessageBuilder::causation_id),
        ];
        for (field, set) in setters {
            if let Some(text) = self.text(field) {
                message = set(message, text);
            }
        }
        message
    }

    /// A JSON object; what is not a string in it becomes its JSON text.
    fn headers(&self) -> Result<BTreeMap<String, String>, String> {
        let Some(text) = self.text(Field::Headers) else { return Ok(BTreeMap::new()) };
        let headers = match serde_json::from_str(&text) {
            Ok(Value::Object(headers)) => headers,
            Ok(Value::Null) => return Ok(BTreeMap::new()),
            _ => return Err("headers must be a JSON object".to_owned()),
        };
        let text = |value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Ok(headers.into_iter().map(|(name, value)| (name, text(value))).collect())
    }
}

/// The old id when it is a UUID, else one that is made of it, the same in every run.
fn identity(table: &str, old: &str) -> Uuid {
    Uuid::parse_str(old).unwrap_or_else(|_| named(table, old))
}

fn named(table: &str, name: &str) -> Uuid {
    let name = format!("{}\0{name}", plain(table));
    IdempotencyKey::v5(NAMESPACE, name.as_bytes()).as_uuid()
}

/// Nothing for the default, which is JSON.
fn content_type(given: Option<String>, payload: &[u8]) -> Option<String> {
    let guessed = || match std::str::from_utf8(payload) {
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => None,
        Ok(_) => Some("text/plain"),
        Err(_) => Some("application/octet-stream"),
    };
    given.or_else(|| guessed().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(Field, &str)], payload: &str) -> OldRow {
        let parse = |(field, text): &(Field, &str)| (*field, Cell::parse(text).expect("a cell"));
        OldRow {
            cells: cells.iter().map(parse).collect(),
            payload: Some(payload.as_bytes().to_vec()),
            payload_bytes: payload.len(),
        }
    }

    fn message(cells: &[(Field, &str)]) -> Result<Message, String> {
        row(cells, "{}").message("Outbox_Event", 100)
    }

    #[test]
    fn sch_4_ids_that_are_uuids_are_kept_however_they_are_stored() {
        let id = "0e1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b";
        let forms = [
            format!("t{id}"),
            format!("t{}", id.to_uppercase()),
            format!("t{}", id.replace('-', "")),
            format!("x{}", id.replace('-', "")),
        ];
        for form in forms {
            let message = message(&[(Field::Id, &form), (Field::Topic, "tt")]).expect(&form);
            assert_eq!(message.id().to_string(), id, "{form}");
            assert_eq!(message.idempotency_key().map(|key| key.to_string()).as_deref(), Some(id));
            assert_eq!(message.headers().get(IMPORTED_ID), None, "{form}");
        }
    }

    #[test]
    fn sch_4_other_ids_get_a_stable_one_and_stay_in_a_header() {
        let of = |id: &str| {
            let cells = [(Field::Id, id), (Field::Topic, "tt")];
            message(&cells).expect("legal")
        };
        let ulid = of("t01ARZ3NDEKTSV4RRFFQ69G5FAV");
        // Golden: a run of a later version must find what this one wrote.
        assert_eq!(ulid.id().to_string(), "ad472eb6-bb10-5e3c-a0d9-929f06f3a0a8");
        assert_eq!(ulid.headers().get(IMPORTED_ID), Some("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
        assert_ne!(of("ta1").id(), of("tA1").id(), "ids that differ in case are two ids");
        assert_eq!(of("t7").id(), of("x37").id(), "the same text, stored as bytes");
    }

    #[test]
    fn sch_4_a_message_id_beside_the_row_id_is_the_one_that_receivers_know() {
        let (row, known) =
            ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222");
        let cells = [
            (Field::Id, &*format!("t{row}")),
            (Field::MessageId, &*format!("t{known}")),
            (Field::Topic, "tt"),
        ];
        let message = message(&cells).expect("legal");
        assert_eq!(message.id().to_string(), known);
        assert_eq!(message.headers().get(IMPORTED_ID), Some(row));
    }

    #[test]
    fn sch_4_times_are_read_in_all_their_forms() {
        let expected = 1_794_751_200_000_000;
        for text in [
            "2026-11-15T14:00:00Z",
            "2026-11-15 14:00:00",
            "2026-11-15 14:00:00.000000",
            "2026-11-15 15:00:00+01:00",
            "2026-11-15T14:00:00.0000000+00:00",
            "1794751200",
            "1794751200000",
            "1794751200000000",
        ] {
            assert_eq!(time(text).map(Timestamp::as_micros), Ok(expected), "{text}");
        }
        assert_eq!(time("soon"), Err("\"soon\" is no time".to_owned()));
        let cells = [(Field::Id, "t1"), (Field::Topic, "tt"), (Field::OccurredAt, "tsoon")];
        assert_eq!(message(&cells).unwrap_err(), "occurred_at: \"soon\" is no time");
    }

    #[test]
    fn sch_4_what_breaks_a_limit_says_so() {
        let long = format!("t{}", "x".repeat(256));
        let refused = message(&[(Field::Id, "t1"), (Field::Topic, &long)]).unwrap_err();
        assert_eq!(refused, "topic must be 1 to 255 characters, got 256 characters");
        assert_eq!(message(&[(Field::Topic, "tt")]).unwrap_err(), "it has no id");
        let cells = [(Field::Id, "t1"), (Field::Topic, "tt"), (Field::Headers, "t[1]")];
        assert_eq!(message(&cells).unwrap_err(), "headers must be a JSON object");
        let mut big = row(&[(Field::Id, "t1"), (Field::Topic, "tt")], "");
        big.payload_bytes = 101;
        let refused = big.message("t", 100).unwrap_err();
        assert_eq!(refused, "payload must be at most 100 bytes, got 101 bytes");
    }

    #[test]
    fn sch_4_payloads_that_are_not_json_do_not_claim_to_be() {
        assert_eq!(content_type(None, b"{\"a\": [1]}"), None);
        assert_eq!(content_type(None, b"<a/>").as_deref(), Some("text/plain"));
        assert_eq!(content_type(None, b"\xff\x00").as_deref(), Some("application/octet-stream"));
        assert_eq!(content_type(Some("a/b".to_owned()), b"{}").as_deref(), Some("a/b"));
    }
}
