//! JSON for machines. Field names never change; what is absent is `null`; times are RFC 3339 in UTC
//! with microseconds.

use postroom::lifecycle::DeadReason;
use postroom::store::{self, Attempt};
use postroom::{
    Headers, IdempotencyKey, Message, MessageId, Origin, OwnerToken, Timestamp, When, WorkId,
};
use serde::Serialize;

use super::payload::hex;
use super::{status, time};

/// One document with a line end.
pub(crate) fn document(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("strings, numbers and lists of them");
    text.push('\n');
    text
}

/// A message in a list: everything but headers and payload.
#[derive(Serialize)]
pub(crate) struct Record<'a> {
    id: MessageId,
    topic: &'a str,
    tenant_id: Option<&'a str>,
    status: &'static str,
    reason: Option<String>,
    attempts: u32,
    lost: u32,
    last_error: Option<&'a str>,
    created_at: String,
    next_attempt_at: Option<String>,
    locked_until: Option<String>,
    owner: Option<OwnerToken>,
    processed_at: Option<String>,
    processed_by: Option<OwnerToken>,
    work_id: WorkId,
    #[serde(flatten)]
    message: Said<'a>,
}

/// What the producer said; all `null` when the row can not be decoded.
#[derive(Default, Serialize)]
struct Said<'a> {
    aggregate_type: Option<&'a str>,
    aggregate_id: Option<&'a str>,
    ordering_key: Option<&'a str>,
    idempotency_key: Option<IdempotencyKey>,
    correlation_id: Option<&'a str>,
    causation_id: Option<&'a str>,
    occurred_at: Option<String>,
    due_at: Option<String>,
    expires_at: Option<String>,
    priority: Option<i16>,
    content_type: Option<&'a str>,
    payload_bytes: Option<u64>,
    /// Of a received message: where it came from, and for whom it is.
    origin: Option<&'a Origin>,
}

impl<'a> Record<'a> {
    pub(crate) fn new(record: &'a store::Record) -> Self {
        Self {
            id: record.id,
            topic: &record.topic,
            tenant_id: record.tenant_id.as_deref(),
            status: status(record),
            reason: record.reason.map(reason),
            attempts: record.attempts,
            lost: record.lost,
            last_error: record.last_error.as_deref(),
            created_at: time::rfc3339(record.created_at),
            next_attempt_at: record.next_attempt_at.map(time::rfc3339),
            locked_until: record.locked_until.map(time::rfc3339),
            owner: record.owner,
            processed_at: record.processed_at.map(time::rfc3339),
            processed_by: record.processed_by,
            work_id: record.work,
            message: record
                .message
                .as_ref()
                .map(|said| Said::new(said, record.payload_bytes))
                .unwrap_or_default(),
        }
    }
}

impl<'a> Said<'a> {
    fn new(message: &'a Message, payload_bytes: u64) -> Self {
        Self {
            aggregate_type: message.aggregate_type().map(AsRef::as_ref),
            aggregate_id: message.aggregate_id().map(AsRef::as_ref),
            ordering_key: message.ordering_key().map(AsRef::as_ref),
            idempotency_key: message.idempotency_key(),
            correlation_id: message.correlation_id().map(AsRef::as_ref),
            causation_id: message.causation_id().map(AsRef::as_ref),
            occurred_at: message.occurred_at().map(time::rfc3339),
            due_at: message.due().and_then(at).map(time::rfc3339),
            expires_at: message.expires().and_then(at).map(time::rfc3339),
            priority: Some(message.priority()),
            content_type: Some(message.content_type()),
            payload_bytes: Some(payload_bytes),
            origin: message.origin(),
        }
    }
}

/// One message with headers, history and, on demand, its payload.
#[derive(Serialize)]
pub(crate) struct Detail<'a> {
    #[serde(flatten)]
    record: Record<'a>,
    decodable: bool,
    headers: Option<&'a Headers>,
    history: Vec<Event<'a>>,
    #[serde(flatten)]
    payload: Option<Payload>,
}

#[derive(Serialize)]
struct Event<'a> {
    at: String,
    by: Option<OwnerToken>,
    lease_lost: bool,
    error: Option<&'a str>,
}

/// Bytes that are not UTF-8 are written as hex, so that nothing is lost.
#[derive(Serialize)]
struct Payload {
    payload: String,
    payload_encoding: &'static str,
}

impl<'a> Detail<'a> {
    pub(crate) fn new(detail: &'a store::Detail, with_payload: bool) -> Self {
        let message = detail.record.message.as_ref();
        let event = |attempt: &'a Attempt| Event {
            at: time::rfc3339(attempt.at),
            by: attempt.by,
            lease_lost: attempt.lease_lost,
            error: attempt.error.as_deref(),
        };
        Self {
            record: Record::new(&detail.record),
            decodable: message.is_some(),
            headers: message.map(Message::headers),
            history: detail.history.iter().map(event).collect(),
            payload: message.filter(|_| with_payload).map(|m| Payload::new(m.payload())),
        }
    }
}

impl Payload {
    fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { payload: text.to_owned(), payload_encoding: "utf-8" },
            Err(_) => Self { payload: hex(bytes), payload_encoding: "hex" },
        }
    }
}

/// Counts by state.
#[derive(Serialize)]
pub(crate) struct Stats<'a> {
    queue: &'a str,
    ready: u64,
    waiting: u64,
    leased: u64,
    failed: u64,
    done: u64,
    dead: u64,
    oldest_ready_seconds: Option<f64>,
}

impl<'a> Stats<'a> {
    pub(crate) fn new(queue: &'a str, stats: &store::Stats) -> Self {
        Self {
            queue,
            ready: stats.ready,
            waiting: stats.waiting,
            leased: stats.leased,
            failed: stats.failed,
            done: stats.done,
            dead: stats.dead,
            oldest_ready_seconds: stats.oldest_ready.map(|age| age.as_secs_f64()),
        }
    }
}

/// A pause in force; without a topic it is the whole queue.
#[derive(Serialize)]
pub(crate) struct Pause<'a> {
    topic: Option<&'a str>,
    since: String,
    by: Option<&'a str>,
    reason: Option<&'a str>,
}

impl<'a> Pause<'a> {
    pub(crate) fn new(pause: &'a store::PauseRecord) -> Self {
        Self {
            topic: pause.topic.as_deref(),
            since: time::rfc3339(pause.since),
            by: pause.by.as_deref(),
            reason: pause.reason.as_deref(),
        }
    }
}

/// A stored time is absolute; a distance only exists before a message is written.
pub(crate) fn at(when: When) -> Option<Timestamp> {
    match when {
        When::At(time) => Some(time),
        When::After(_) => None,
    }
}

/// The reason as one word, for programs.
fn reason(reason: DeadReason) -> String {
    reason.as_str().replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use postroom::lifecycle::State;
    use serde_json::{Value, json};

    use super::super::tests::{now, owner, record, seconds};
    use super::*;

    fn value(document: &impl Serialize) -> Value {
        serde_json::to_value(document).expect("serialises")
    }

    #[test]
    fn cli_1_names_are_stable_and_absent_fields_are_null() {
        let record = store::Record { message: None, tenant_id: None, ..record() };
        let expected = json!({
            "id": "019a8a00-0000-7000-8000-000000000001",
            "topic": "order.placed",
            "tenant_id": null,
            "status": "pending",
            "reason": null,
            "attempts": 0,
            "lost": 0,
            "last_error": null,
            "created_at": "2026-11-15T13:58:00.000000Z",
            "next_attempt_at": null,
            "locked_until": null,
            "owner": null,
            "processed_at": null,
            "processed_by": null,
            "work_id": 12,
            "aggregate_type": null,
            "aggregate_id": null,
            "ordering_key": null,
            "idempotency_key": null,
            "correlation_id": null,
            "causation_id": null,
            "occurred_at": null,
            "due_at": null,
            "expires_at": null,
            "priority": null,
            "content_type": null,
            "payload_bytes": null,
            "origin": null,
        });
        assert_eq!(value(&Record::new(&record)), expected);
    }

    #[test]
    fn adm_1_payloads_are_there_on_demand_only() {
        let attempt = Attempt {
            at: now().saturating_sub(seconds(60)),
            by: Some(owner()),
            lease_lost: false,
            error: Some("no".into()),
        };
        let record = store::Record {
            state: State::Dead,
            reason: Some(DeadReason::Attempts),
            attempts: 10,
            ..record()
        };
        let detail = store::Detail { record, history: vec![attempt] };
        let without = value(&Detail::new(&detail, false));
        assert_eq!((without.get("payload"), without.get("payload_encoding")), (None, None));
        assert_eq!(without["reason"], "attempts_used_up");
        assert_eq!(without["headers"]["source"], "shop");
        assert_eq!(without["history"][0]["error"], "no");
        let with = value(&Detail::new(&detail, true));
        assert_eq!(with["payload"], r#"{"order":7}"#);
        assert_eq!(with["payload_encoding"], "utf-8");
        assert_eq!(Payload::new(b"\xff").payload, "ff");
    }
}
