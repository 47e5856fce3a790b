//! Lists of messages: all of them, and dead letters.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use postroom_core::lifecycle::{DeadReason, State as Stage};
use postroom_core::store::{Cursor, Page, Record, Stats};
use postroom_core::{MessageId, Timestamp};

use super::filter::{Filter, SPANS, STATUSES};
use super::frame::{Ask, Frame, Link, Place};
use super::words::{self, When};
use crate::desk::{Desk, words as words_of_api};
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "messages.html")]
struct Messages {
    frame: Frame,
    is_dead: bool,
    path: &'static str,
    tabs: Vec<Tab>,
    filter: Filter,
    choices: Choices,
    rows: Vec<Row>,
    /// Where the list goes on, and whether it stopped before the page was full.
    older: Option<String>,
    partial: bool,
    newest: Option<String>,
    replay_all: String,
    discard_all: String,
    export: String,
    publish: String,
}

pub(super) struct Tab {
    pub(super) link: Link,
    pub(super) count: Option<String>,
}

/// What the fields of the filter offer: value, label, chosen.
struct Choices {
    within: Vec<(&'static str, &'static str, bool)>,
    reasons: Vec<(String, &'static str, bool)>,
}

/// A message in a list.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) short: String,
    pub(super) href: String,
    pub(super) class: &'static str,
    pub(super) state: String,
    pub(super) topic: String,
    pub(super) key: Option<String>,
    pub(super) aggregate: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) attempts: u32,
    pub(super) created: When,
    pub(super) next: Option<When>,
    pub(super) error: Option<String>,
}

impl Row {
    pub(super) fn new(record: &Record, frame: &Frame, now: Timestamp) -> Self {
        let message = record.message.as_ref();
        let kind = message.and_then(|m| m.aggregate_type()).map(ToString::to_string);
        let id = message.and_then(|m| m.aggregate_id()).map(ToString::to_string);
        let aggregate = match (kind, id) {
            (Some(kind), Some(id)) => Some(format!("{kind} {id}")),
            (kind, id) => kind.or(id),
        };
        let (class, state) = state(record);
        let waits = record.state == Stage::Ready;
        let next = record.next_attempt_at.filter(|at| waits && *at > now);
        Self {
            id: record.id.to_string(),
            short: words::short(record.id),
            href: frame.message(&record.id),
            class,
            state,
            topic: record.topic.clone(),
            key: message.and_then(|m| m.ordering_key()).map(ToString::to_string),
            aggregate,
            tenant: record.tenant_id.clone(),
            attempts: record.attempts,
            created: When::new(record.created_at, now),
            next: next.map(|at| When::new(at, now)),
            error: record.last_error.clone(),
        }
    }
}

/// The state of a message as people know it, with its colour.
pub(super) fn state(record: &Record) -> (&'static str, String) {
    let (class, word) = match record.state {
        Stage::Ready if record.attempts > 0 => ("warn", "Retrying"),
        Stage::Ready => ("", "Pending"),
        Stage::Leased => ("info", "In flight"),
        Stage::Done => ("good", "Done"),
        Stage::Dead if record.reason == Some(DeadReason::Discarded) => ("", "Discarded"),
        Stage::Dead => ("bad", "Dead"),
    };
    (class, word.to_owned())
}

pub(super) async fn messages(state: State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    list(state, ask, Place::Messages).await
}

pub(super) async fn dead(state: State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    list(state, ask, Place::Dead).await
}

async fn list(State(desk): State<Arc<Desk>>, ask: Ask, place: Place) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.at_hand();
    let now = Timestamp::host_now();
    let is_dead = place == Place::Dead;
    let mut filter = Filter::of(&ask.query);
    if is_dead {
        filter = filter.with("status", "dead");
    }
    let mut wanted = filter.list()?;
    wanted.before = ask.get("before").map(str::parse::<Cursor>).transpose()?;
    let found = queue.store.list(&wanted).await?;
    let title = match (is_dead, queue.kind) {
        (true, _) => "Dead letters",
        (false, "inbox") => "Inbox",
        (false, _) => "Messages",
    };
    let frame = Frame::new(&desk, &ask, queue, &sample, place, title);
    let stats = sample.seen.as_ref().map(|seen| seen.stats);
    let export = filter.for_api();
    let mut page = page(frame, filter, &found, wanted.limit, stats, now, wanted.before.is_some());
    let pairs: Vec<_> = export.iter().map(|(name, value)| (*name, value.as_str())).collect();
    page.export = page.frame.with("/api/v1/export", &pairs);
    ask.show(&page)
}

fn page(
    frame: Frame,
    filter: Filter,
    found: &Page,
    limit: u32,
    stats: Option<Stats>,
    now: Timestamp,
    is_later: bool,
) -> Messages {
    let is_dead = frame.title == "Dead letters";
    let path = if is_dead { "/dead" } else { "/messages" };
    // The path of dead letters says their state already.
    let shown = if is_dead { filter.clone().with("status", "") } else { filter.clone() };
    let further = |before: Cursor| {
        let before = before.to_string();
        let mut pairs = shown.pairs();
        pairs.push(("before", &before));
        frame.with(path, &pairs)
    };
    let act = |act: &str| {
        let mut pairs = filter.pairs();
        pairs.push(("act", act));
        frame.with("/plan", &pairs)
    };
    Messages {
        is_dead,
        path,
        tabs: if is_dead { reasons(&frame, &filter) } else { statuses(&frame, &filter, stats) },
        choices: choices(&filter),
        rows: found.records.iter().map(|record| Row::new(record, &frame, now)).collect(),
        older: found.next.map(further),
        partial: found.next.is_some() && found.records.len() < limit as usize,
        newest: is_later.then(|| frame.with(path, &shown.pairs())),
        replay_all: act("replay"),
        discard_all: act("discard"),
        export: String::new(),
        publish: frame.with("/publish", &[("topic", one_topic(&filter))]),
        filter,
        frame,
    }
}

/// The topic that is looked at; nothing when there are many.
fn one_topic(filter: &Filter) -> &str {
    Some(filter.get("topic")).filter(|topic| !topic.ends_with('*')).unwrap_or_default()
}

fn statuses(frame: &Frame, filter: &Filter, stats: Option<Stats>) -> Vec<Tab> {
    let number = |name: &str| {
        let stats = stats?;
        Some(words::count(match name {
            "pending" => stats.ready + stats.waiting,
            "leased" => stats.leased,
            "failed" => stats.failed,
            "dead" => stats.dead,
            "done" => stats.done,
            _ => return None,
        }))
    };
    let all = [("", "All")].into_iter().chain(STATUSES);
    let tab = |(name, label): (&str, &str)| Tab {
        link: Link {
            label: label.to_owned(),
            href: frame.with("/messages", &filter.clone().with("status", name).pairs()),
            current: filter.get("status") == name,
        },
        count: number(name),
    };
    all.map(tab).collect()
}

fn reasons(frame: &Frame, filter: &Filter) -> Vec<Tab> {
    let all = [(String::new(), "All".to_owned())];
    let named = DeadReason::ALL.map(|why| (words_of_api::reason(why), capital(why.as_str())));
    let plain = filter.clone().with("status", "");
    let tab = |(name, label): (String, String)| Tab {
        link: Link {
            label,
            href: frame.with("/dead", &plain.clone().with("reason", &name).pairs()),
            current: filter.get("reason") == name,
        },
        count: None,
    };
    all.into_iter().chain(named).map(tab).collect()
}

/// With a capital letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn choices(filter: &Filter) -> Choices {
    let within = |(name, label)| (name, label, filter.get("within") == name);
    let reason = |why: DeadReason| {
        let name = words_of_api::reason(why);
        let is_chosen = filter.get("reason") == name;
        (name, why.as_str(), is_chosen)
    };
    Choices { within: SPANS.map(within).into(), reasons: DeadReason::ALL.map(reason).into() }
}

/// An id leads to its message, a topic to its messages, and anything else is the text of an error.
pub(super) async fn jump(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Messages, "");
    let to = ask.get("to").unwrap_or_default();
    let href = if let Ok(id) = to.parse::<MessageId>() {
        frame.message(&id)
    } else if to.is_empty() {
        frame.to("/messages")
    } else if is_topic(to, sample.seen.iter().flat_map(|seen| &seen.topics).map(|t| &*t.topic)) {
        frame.with("/messages", &[("topic", to)])
    } else {
        frame.with("/messages", &[("error", to)])
    };
    Ok(Redirect::to(&href).into_response())
}

/// Known, or like one: a word with a dot or a star, and no space.
fn is_topic<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> bool {
    let mut known = known;
    known.any(|topic| topic == text) || (text.contains(['.', '*']) && !text.contains(' '))
}
