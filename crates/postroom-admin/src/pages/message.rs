//! One message: where it stands, what happened to it, what is in it, and what to do with it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use postroom_core::lifecycle::State as Stage;
use postroom_core::store::{Attempt, BlockedKey, Detail, List, Record};
use postroom_core::{Message, MessageId, Timestamp};

use super::frame::{Ask, Frame, Link, Place};
use super::list::{self, Row};
use super::payload::{self, Shown};
use super::words::{self, When};
use crate::access::Right;
use crate::desk::{Desk, Queue};
use crate::problem::Problem;
use crate::sampler::Sample;

/// Other messages of the same key that are shown.
const NEIGHBOURS: u32 = 8;

#[derive(Template)]
#[template(path = "message.html")]
struct Page {
    frame: Frame,
    id: String,
    topic: String,
    class: &'static str,
    state: String,
    reason: Option<&'static str>,
    error: Option<String>,
    facts: Vec<Fact>,
    events: Vec<Event>,
    headers: Vec<(String, Option<String>)>,
    payload: Payload,
    neighbours: Vec<Row>,
    neighbours_href: String,
    blocked_by: Option<Blocker>,
    can_replay: bool,
    can_discard: bool,
    can_copy: bool,
    copy_href: String,
    api_href: String,
}

struct Fact {
    name: &'static str,
    value: Value,
}

enum Value {
    Text(String),
    Link { text: String, href: String },
    Time(When),
}

/// Something that happened to the message, or will.
struct Event {
    class: &'static str,
    what: String,
    at: Option<When>,
    /// The end of the owner's token, and all of it.
    by: Option<(String, String)>,
    said: Option<String>,
}

enum Payload {
    Empty,
    Undecodable,
    Forbidden { size: String },
    OnDemand { size: String, href: String },
    Shown { size: String, content_type: String, shown: Shown, views: Vec<Link>, download: String },
}

struct Blocker {
    text: String,
    href: String,
}

pub(super) async fn message(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    ask: Ask,
) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let id: MessageId = id.parse()?;
    let detail = desk.find(queue, id).await?;
    // What blocks a message is among the figures; other messages need not wait for them.
    let sample = match waits_in_order(&detail.record) {
        true => queue.sampler.latest().await,
        false => queue.sampler.at_hand(),
    };
    let now = Timestamp::host_now();
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Messages, &*detail.record.topic);
    let neighbours = neighbours(queue, &detail.record).await?;
    let record = &detail.record;
    let (class, state) = list::state(record);
    let key = record.message.as_ref().and_then(|m| m.ordering_key()).map(ToString::to_string);
    let may_act = frame.may_operate;
    let page = Page {
        id: id.to_string(),
        topic: record.topic.clone(),
        class,
        state,
        reason: record.reason.map(|reason| reason.as_str()),
        error: record.last_error.clone(),
        facts: facts(record, &frame, now),
        events: events(&detail, now),
        headers: headers(record, frame.may_see_payloads),
        payload: content(record, &frame, &ask),
        neighbours: neighbours.iter().map(|other| Row::new(other, &frame, now)).collect(),
        neighbours_href: frame
            .with("/messages", &[("ordering_key", key.as_deref().unwrap_or_default())]),
        blocked_by: blocker(record, &sample, &frame),
        can_replay: may_act && record.state == Stage::Dead,
        can_discard: may_act && matches!(record.state, Stage::Dead | Stage::Ready),
        can_copy: may_act && frame.may_see_payloads && record.message.is_some(),
        copy_href: frame.to(&format!("/messages/{id}/copy")),
        api_href: frame.to(&format!("/api/v1/messages/{id}")),
        frame,
    };
    ask.show(&page)
}

/// The payload as a file. Never with a type that a browser would show or run.
pub(super) async fn download(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    ask: Ask,
) -> Result<Response, Problem> {
    let detail = desk.find(&*ask.queue()?, id.parse()?).await?;
    let Some(message) = detail.record.message else {
        return Err(Problem::not_found("its row can not be decoded"));
    };
    let name = format!("attachment; filename=\"{id}.bin\"");
    let head = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((head, message.payload().clone()).into_response())
}

async fn neighbours(queue: &Queue, record: &Record) -> Result<Vec<Record>, Problem> {
    let Some(key) = record.message.as_ref().and_then(Message::ordering_key) else {
        return Ok(Vec::new());
    };
    let wanted = List {
        ordering_key: Some(key.to_string()),
        tenant: record.tenant_id.clone(),
        limit: NEIGHBOURS + 1,
        ..List::default()
    };
    let mut found = queue.store.list(&wanted).await?.records;
    found.retain(|other| other.id != record.id && other.tenant_id == record.tenant_id);
    found.truncate(NEIGHBOURS as usize);
    Ok(found)
}

fn waits_in_order(record: &Record) -> bool {
    let is_ordered = record.message.as_ref().is_some_and(|m| m.ordering_key().is_some());
    is_ordered && matches!(record.state, Stage::Ready | Stage::Leased)
}

fn blocker(record: &Record, sample: &Sample, frame: &Frame) -> Option<Blocker> {
    if !waits_in_order(record) {
        return None;
    }
    let key = record.message.as_ref()?.ordering_key()?.to_string();
    let is_it = |blocked: &&BlockedKey| {
        blocked.ordering_key.as_deref() == Some(&*key)
            && blocked.tenant_id == record.tenant_id
            && blocked.by != record.id
    };
    let blocked = sample.seen.as_ref()?.blocked.iter().find(is_it)?;
    Some(Blocker {
        text: format!("{} {}", blocked.topic, words::short(blocked.by)),
        href: frame.message(&blocked.by),
    })
}

fn facts(record: &Record, frame: &Frame, now: Timestamp) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |name, value: Option<Value>| {
        facts.extend(value.map(|value| Fact { name, value }));
    };
    let text = |value: Option<String>| value.map(Value::Text);
    let time = |at: Option<Timestamp>| at.map(|at| Value::Time(When::new(at, now)));
    let filtered = |name: &str, value: Option<String>| {
        value.map(|text| Value::Link { href: frame.with("/messages", &[(name, &text)]), text })
    };
    let message = record.message.as_ref();
    add("Topic", filtered("topic", Some(record.topic.clone())));
    add("Written", time(Some(record.created_at)));
    let key = message.and_then(|m| m.ordering_key()).map(ToString::to_string);
    add("Ordering key", filtered("ordering_key", key));
    let kind = message.and_then(|m| m.aggregate_type()).map(ToString::to_string);
    add("Aggregate type", filtered("aggregate_type", kind));
    let id = message.and_then(|m| m.aggregate_id()).map(ToString::to_string);
    add("Aggregate id", filtered("aggregate_id", id));
    add("Tenant", filtered("tenant", record.tenant_id.clone()));
    add("Bad attempts", text(Some(record.attempts.to_string())));
    add("Lost leases", text((record.lost > 0).then(|| record.lost.to_string())));
    add("Held by", text(record.owner.map(|owner| owner.to_string())));
    add("Held until", time(record.locked_until));
    add("Settled by", text(record.processed_by.map(|owner| owner.to_string())));
    if let Some(message) = message {
        add("Correlation id", text(message.correlation_id().map(ToString::to_string)));
        let cause = message.causation_id().map(ToString::to_string);
        add(
            "Causation id",
            cause.map(|text| match text.parse::<MessageId>() {
                Ok(id) => Value::Link { href: frame.message(&id), text },
                Err(_) => Value::Text(text),
            }),
        );
        add("Idempotency key", text(message.idempotency_key().map(|key| key.to_string())));
        add("Occurred", time(message.occurred_at()));
        add("Due", time(message.due().map(|due| due.resolve(record.created_at))));
        add("Expires", time(message.expires().map(|when| when.resolve(record.created_at))));
        add("Priority", text((message.priority() != 0).then(|| message.priority().to_string())));
        if let Some(origin) = message.origin() {
            add("Source", text(Some(origin.source.to_string())));
            add("Id at its source", text(Some(origin.message_id.to_string())));
            add("Consumer", text(Some(origin.consumer.to_string())));
        }
    }
    facts
}

/// Written, each bad attempt, and how it ended or what comes next.
fn events(detail: &Detail, now: Timestamp) -> Vec<Event> {
    let record = &detail.record;
    let when = |at| Some(When::new(at, now));
    let mut events = vec![Event {
        class: "info",
        what: "Written".into(),
        at: when(record.created_at),
        by: None,
        said: None,
    }];
    let tried = |(at, attempt): (usize, &Attempt)| {
        let before = at.checked_sub(1).map(|before| &detail.history[before]);
        let is_same = before.is_some_and(|before| before.error == attempt.error);
        let what = match (attempt.lease_lost, is_same && attempt.error.is_some()) {
            (true, _) => "Its lease ran out".to_owned(),
            (false, true) => format!("Attempt {} went wrong in the same way", at + 1),
            (false, false) => format!("Attempt {} went wrong", at + 1),
        };
        Event {
            class: if attempt.lease_lost { "warn" } else { "bad" },
            what,
            at: when(attempt.at),
            by: attempt.by.map(|owner| (words::short(owner), owner.to_string())),
            // The last error stands above.
            said: attempt
                .error
                .clone()
                .filter(|said| !is_same && record.last_error.as_ref() != Some(said)),
        }
    };
    events.extend(detail.history.iter().enumerate().map(tried));
    let last = |class, what: &str, at: Option<Timestamp>| Event {
        class,
        what: what.to_owned(),
        at: at.map(|at| When::new(at, now)),
        by: None,
        said: None,
    };
    let next = record.next_attempt_at;
    events.push(match record.state {
        Stage::Done => last("good", "Delivered", record.processed_at),
        Stage::Dead => {
            let reason = record.reason.map_or("dead", |reason| reason.as_str());
            last("bad", &format!("Dead: {reason}"), record.processed_at)
        }
        Stage::Leased => last("info", "In flight", None),
        Stage::Ready if next.is_some_and(|at| at > now) => last("next", "Next try", next),
        Stage::Ready => last("next", "Waits to be claimed", None),
    });
    events
}

/// Names always, values only for who may see payloads.
fn headers(record: &Record, may_see: bool) -> Vec<(String, Option<String>)> {
    let all = record.message.iter().flat_map(|message| message.headers().iter());
    all.map(|(name, value)| (name.to_owned(), may_see.then(|| value.to_owned()))).collect()
}

fn content(record: &Record, frame: &Frame, ask: &Ask) -> Payload {
    let Some(message) = &record.message else { return Payload::Undecodable };
    let path = format!("/messages/{}", record.id);
    let size = words::bytes(record.payload_bytes);
    if record.payload_bytes == 0 {
        Payload::Empty
    } else if !ask.caller.may(Right::Payload) {
        Payload::Forbidden { size }
    } else if ask.get("payload").is_none() {
        Payload::OnDemand {
            size,
            href: format!("{}#payload", frame.with(&path, &[("payload", "1")])),
        }
    } else {
        let shown = payload::show(message.payload(), ask.get("payload"));
        Payload::Shown {
            size,
            content_type: message.content_type().to_owned(),
            views: views(&shown, frame, &path),
            shown,
            download: frame.to(&format!("{path}/payload")),
        }
    }
}

/// Links to what else it can be shown as.
fn views(shown: &Shown, frame: &Frame, path: &str) -> Vec<Link> {
    let link = |view: &&'static str| Link {
        label: match *view {
            "bytes" => "Hex".to_owned(),
            view => list::capital(view),
        },
        href: format!("{}#payload", frame.with(path, &[("payload", view)])),
        current: *view == shown.kind,
    };
    shown.views.iter().map(link).collect()
}
