//! JSON for machines. Field names never change; what is absent is `null`; times are RFC 3339 in UTC
//! with microseconds.

use postroom::lifecycle::DeadReason;
use postroom::store::{Detail, Migrated, Record, Stats};
use postroom::{Message, Published, Timestamp, When};
use serde_json::{Map, Value, json};

use super::payload::hex;
use super::{status, time};

/// One document with a line end.
pub(crate) fn document(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A message in a list: everything but headers and payload.
pub(crate) fn record(record: &Record) -> Value {
    let message = record.message.as_ref();
    let text = |get: fn(&Message) -> Option<String>| message.and_then(get);
    json!({
        "id": record.id,
        "work_id": record.work,
        "topic": record.topic,
        "tenant_id": record.tenant_id,
        "status": status(record),
        "reason": record.reason.map(reason),
        "attempts": record.attempts,
        "lost": record.lost,
        "created_at": time::rfc3339(record.created_at),
        "next_attempt_at": record.next_attempt_at.map(time::rfc3339),
        "locked_until": record.locked_until.map(time::rfc3339),
        "owner": record.owner,
        "last_error": record.last_error,
        "processed_at": record.processed_at.map(time::rfc3339),
        "processed_by": record.processed_by,
        "content_type": text(|m| Some(m.content_type().to_owned())),
        "payload_bytes": message.map(|m| m.payload().len()),
        "aggregate_type": text(|m| m.aggregate_type().map(ToString::to_string)),
        "aggregate_id": text(|m| m.aggregate_id().map(ToString::to_string)),
        "ordering_key": text(|m| m.ordering_key().map(ToString::to_string)),
        "correlation_id": text(|m| m.correlation_id().map(ToString::to_string)),
        "causation_id": text(|m| m.causation_id().map(ToString::to_string)),
        "idempotency_key": text(|m| m.idempotency_key().map(|key| key.to_string())),
        "occurred_at": text(|m| m.occurred_at().map(time::rfc3339)),
        "due_at": text(|m| m.due().and_then(at).map(time::rfc3339)),
        "expires_at": text(|m| m.expires().and_then(at).map(time::rfc3339)),
        "priority": message.map(Message::priority),
    })
}

/// One message with headers, history and, on demand, its payload.
pub(crate) fn detail(detail: &Detail, with_payload: bool) -> Value {
    let mut value = record(&detail.record);
    let message = detail.record.message.as_ref();
    let history = detail.history.iter().map(|attempt| {
        json!({
            "at": time::rfc3339(attempt.at),
            "by": attempt.by,
            "lease_lost": attempt.lease_lost,
            "error": attempt.error,
        })
    });
    let more = json!({
        "decodable": message.is_some(),
        "headers": message.map(Message::headers),
        "history": history.collect::<Vec<_>>(),
    });
    let payload = message.filter(|_| with_payload).map(|message| payload(message.payload()));
    if let (Value::Object(all), Value::Object(more)) = (&mut value, more) {
        all.extend(more);
        all.extend(payload.into_iter().flatten());
    }
    value
}

/// Bytes that are not UTF-8 are written as hex, so that nothing is lost.
fn payload(bytes: &[u8]) -> Map<String, Value> {
    let (encoding, text) = match std::str::from_utf8(bytes) {
        Ok(text) => ("utf-8", text.to_owned()),
        Err(_) => ("hex", hex(bytes)),
    };
    Map::from_iter([
        ("payload".to_owned(), json!(text)),
        ("payload_encoding".to_owned(), json!(encoding)),
    ])
}

pub(crate) fn stats(queue: &str, stats: &Stats) -> Value {
    json!({
        "queue": queue,
        "ready": stats.ready,
        "waiting": stats.waiting,
        "leased": stats.leased,
        "failed": stats.failed,
        "done": stats.done,
        "dead": stats.dead,
        "oldest_ready_seconds": stats.oldest_ready.map(|age| age.as_secs_f64()),
    })
}

pub(crate) fn migrated(migrated: Migrated) -> Value {
    json!({ "from": migrated.from, "to": migrated.to })
}

pub(crate) fn published(published: &Published) -> Value {
    json!({
        "id": published.id,
        "work_id": published.work,
        "already_existed": published.already_existed,
    })
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
    use postroom::store::Attempt;

    use super::super::tests::{now, owner, record as plain, seconds};
    use super::*;

    #[test]
    fn cli_1_absent_fields_are_null_and_names_are_stable() {
        let value = record(&Record { message: None, tenant_id: None, ..plain() });
        let names: Vec<_> = value.as_object().expect("an object").keys().cloned().collect();
        let expected = "aggregate_id aggregate_type attempts causation_id content_type \
                        correlation_id created_at due_at expires_at id idempotency_key last_error \
                        locked_until lost next_attempt_at occurred_at ordering_key owner \
                        payload_bytes priority processed_at processed_by reason status tenant_id \
                        topic work_id";
        let mut names: Vec<_> = names.iter().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names.join(" "), expected);
        assert_eq!(value["payload_bytes"], Value::Null);
        assert_eq!(value["created_at"], "2026-11-15T13:58:00.000000Z");
    }

    #[test]
    fn adm_1_payloads_are_there_on_demand_only() {
        let detail = Detail {
            record: Record {
                state: State::Dead,
                reason: Some(DeadReason::Attempts),
                attempts: 10,
                ..plain()
            },
            history: vec![Attempt {
                at: now().saturating_sub(seconds(60)),
                by: Some(owner()),
                lease_lost: false,
                error: Some("no".into()),
            }],
        };
        let without = super::detail(&detail, false);
        assert_eq!(without.get("payload"), None);
        assert_eq!(without["reason"], "attempts_used_up");
        assert_eq!(without["headers"]["source"], "shop");
        assert_eq!(without["history"][0]["error"], "no");
        let with = super::detail(&detail, true);
        assert_eq!(with["payload"], r#"{"order":7}"#);
        assert_eq!(with["payload_encoding"], "utf-8");
        assert_eq!(payload(b"\xff")["payload"], "ff");
    }
}
