//! One message as a page: what it is, what happened to it, and its payload on demand.

use std::fmt::Write as _;

use postroom::lifecycle::State;
use postroom::store::{Detail, Record};
use postroom::{Message, OwnerToken, Timestamp};

use super::{Screen, inert, json::at, outlook, paint, payload, status, style, time};

/// The page.
pub(crate) fn page(detail: &Detail, with_payload: bool, screen: &Screen) -> String {
    let record = &detail.record;
    let mut page = format!("{}\n", paint(&inert(&record.topic), style::HEAD, screen.color));
    for (name, value) in facts(record, with_payload, screen.now) {
        let name = paint(&format!("{name:<16}"), style::DIM, screen.color);
        let _ = writeln!(page, "  {name}{}", inert(&value));
    }
    heading(&mut page, "Timeline", screen);
    for (at, event) in timeline(detail, screen.now) {
        let when = format!("{}  {:>10}", time::absolute(at), time::relative(at, screen.now));
        let _ = writeln!(page, "  {}  {}", paint(&when, style::DIM, screen.color), inert(&event));
    }
    if let Some(message) = &record.message {
        headers(&mut page, message, screen);
        if with_payload {
            let (kind, text) = payload::render(message.payload());
            heading(&mut page, &format!("Payload ({kind})"), screen);
            for line in text.lines() {
                let _ = writeln!(page, "  {line}");
            }
        }
    }
    page
}

fn heading(page: &mut String, text: &str, screen: &Screen) {
    let _ = writeln!(page, "\n{}", paint(text, style::HEAD, screen.color));
}

fn headers(page: &mut String, message: &Message, screen: &Screen) {
    if message.headers().is_empty() {
        return;
    }
    heading(page, "Headers", screen);
    for (name, value) in message.headers().iter() {
        let _ = writeln!(page, "  {}: {}", inert(name), inert(value));
    }
}

/// What there is to say, by name. Absent things are left out.
fn facts(record: &Record, with_payload: bool, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("id", record.id.to_string()),
        ("status", format!("{} ({})", status(record), outlook(record, now))),
    ];
    let mut add = |name, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("last error", record.last_error.clone());
    let tried = record.attempts > 0 || record.lost > 0;
    add("tries", tried.then(|| tries(record)));
    add("tenant", record.tenant_id.clone());
    let Some(message) = &record.message else {
        add("message", Some("its row can not be decoded".to_owned()));
        return facts;
    };
    if let Some(origin) = message.origin() {
        add("from", Some(format!("{} as {}", origin.source, origin.message_id)));
        add("for", Some(origin.consumer.to_string()));
    }
    let kind = message.aggregate_type().map(ToString::to_string);
    let aggregate = kind.zip(message.aggregate_id().map(ToString::to_string));
    add("aggregate", aggregate.map(|(kind, id)| format!("{kind}/{id}")));
    add("ordering key", message.ordering_key().map(ToString::to_string));
    add("idempotency key", message.idempotency_key().map(|key| key.to_string()));
    add("correlation id", message.correlation_id().map(ToString::to_string));
    add("causation id", message.causation_id().map(ToString::to_string));
    let occurred = message.occurred_at().filter(|at| *at != record.created_at);
    add("occurred", occurred.map(|at| time::both(at, now)));
    add("due", message.due().and_then(at).map(|at| time::both(at, now)));
    add("expires", message.expires().and_then(at).map(|at| time::both(at, now)));
    let priority = Some(message.priority()).filter(|priority| *priority != 0);
    add("priority", priority.map(|priority| priority.to_string()));
    let hint = match message.payload().is_empty() || with_payload {
        true => "",
        false => "; --payload shows them",
    };
    let bytes = message.payload().len();
    add("payload", Some(format!("{bytes} bytes of {}{hint}", message.content_type())));
    facts
}

fn tries(record: &Record) -> String {
    let leases = match record.lost {
        0 => String::new(),
        1 => "; 1 lease ran out".to_owned(),
        n => format!("; {n} leases ran out"),
    };
    format!("{} failed{leases}", record.attempts)
}

/// Who did it: enough of the token to tell owners apart.
fn by(owner: Option<OwnerToken>) -> String {
    owner.map_or(String::new(), |owner| format!(" (owner {:.8})", owner.to_string()))
}

/// What happened and what will, oldest first.
fn timeline(detail: &Detail, now: Timestamp) -> Vec<(Timestamp, String)> {
    let record = &detail.record;
    let mut events = vec![(record.created_at, "written".to_owned())];
    for attempt in &detail.history {
        let what = match (attempt.lease_lost, &attempt.error) {
            (true, _) => "lease ran out".to_owned(),
            (false, Some(error)) => format!("attempt failed: {error}"),
            (false, None) => "attempt failed".to_owned(),
        };
        events.push((attempt.at, what + &by(attempt.by)));
    }
    match record.state {
        State::Ready => {
            let next = record.next_attempt_at.filter(|at| *at > now);
            let which = if detail.history.is_empty() { "first attempt" } else { "next attempt" };
            events.extend(next.map(|at| (at, which.to_owned())));
        }
        State::Leased => {
            let end = record.locked_until;
            events.extend(end.map(|at| (at, format!("lease ends{}", by(record.owner)))));
        }
        State::Done | State::Dead => {
            let how = match record.reason {
                Some(reason) => format!("dead: {}", reason.as_str()),
                None => status(record).to_owned(),
            };
            let end = record.processed_at;
            events.extend(end.map(|at| (at, how + &by(record.processed_by))));
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use postroom::lifecycle::DeadReason;
    use postroom::store::Attempt;

    use super::super::tests::{now, owner, record, screen, seconds};
    use super::*;

    fn failed() -> Detail {
        let ago = |n| now().saturating_sub(seconds(n));
        let attempt = |at, error: Option<&str>| Attempt {
            at,
            by: Some(owner()),
            lease_lost: error.is_none(),
            error: error.map(str::to_owned),
        };
        Detail {
            record: Record {
                attempts: 1,
                lost: 1,
                last_error: Some("connection refused".into()),
                next_attempt_at: Some(now().saturating_add(seconds(12))),
                ..record()
            },
            history: vec![attempt(ago(90), Some("connection refused")), attempt(ago(30), None)],
        }
    }

    #[test]
    fn adm_1_a_message_is_shown_with_its_timeline() {
        let expected = "\
order.placed
  id              019a8a00-0000-7000-8000-000000000001
  status          failed (retry in 12s)
  last error      connection refused
  tries           1 failed; 1 lease ran out
  tenant          acme
  aggregate       order/7
  ordering key    order/7
  payload         11 bytes of application/json

Timeline
  2026-11-15 13:58:00Z      2m ago  written
  2026-11-15 13:58:30Z   1m30s ago  attempt failed: connection refused (owner 11111111)
  2026-11-15 13:59:30Z     30s ago  lease ran out (owner 11111111)
  2026-11-15 14:00:12Z      in 12s  next attempt

Headers
  source: shop

Payload (JSON)
  {
    \"order\": 7
  }
";
        assert_eq!(page(&failed(), true, &screen(None)), expected);
    }

    #[test]
    fn adm_1_payloads_are_shown_on_demand_only() {
        let page = page(&failed(), false, &screen(None));
        assert!(!page.contains("Payload"), "{page}");
        assert!(page.contains("11 bytes of application/json; --payload shows them"), "{page}");
    }

    #[test]
    fn wq_1_a_row_that_can_not_be_decoded_is_shown_as_far_as_it_goes() {
        let record = Record {
            message: None,
            state: State::Dead,
            reason: Some(DeadReason::Undecodable),
            processed_at: Some(now()),
            topic: "bad\u{7}topic".into(),
            ..record()
        };
        let page = page(&Detail { record, history: vec![] }, true, &screen(None));
        assert!(page.contains("its row can not be decoded"), "{page}");
        assert!(page.starts_with("bad\\u{7}topic\n"), "{page}");
        assert!(page.contains("now  dead: undecodable"), "{page}");
    }
}
