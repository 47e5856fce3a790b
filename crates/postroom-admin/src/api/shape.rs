//! What answers look like. Names never change; what is absent is `null`; times are RFC 3339 in UTC
//! with microseconds.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use postroom_core::lifecycle::State;
use postroom_core::store::{self, Act, Changed};
use postroom_core::{Headers, Message, Timestamp, When};
use serde::Serialize;
use utoipa::ToSchema;

use crate::desk::act::{Plan, PurgePlan};
use crate::desk::jobs::{Job, Task};
use crate::desk::words;
use crate::desk::words::time;
use crate::problem::Problem;

/// JSON in which no `<` stands: it starts no tag, wherever somebody puts it.
pub(crate) struct Safe<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Safe<T> {
    fn into_response(self) -> Response {
        match safe_json(&self.0) {
            Ok(json) => {
                let kind = [(header::CONTENT_TYPE, "application/json")];
                (kind, Body::from(json)).into_response()
            }
            Err(error) => {
                tracing::error!(%error, "an answer could not be written");
                let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
                Problem::new(status, "bug", "this is a bug of Postroom").into_response()
            }
        }
    }
}

/// In JSON, `<` can only stand in texts.
pub(crate) fn safe_json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|json| json.replace('<', "\\u003c"))
}

/// A page of messages, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Messages {
    pub(super) items: Vec<Item>,
    /// Where the next page begins, as its `before`; `null` at the end.
    pub(super) next: Option<String>,
    /// Whether the search stopped early: the page is not full, but there may be more behind
    /// `next`.
    pub(super) partial: bool,
}

/// A message: everything but headers and payload.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Item {
    id: String,
    topic: String,
    tenant_id: Option<String>,
    /// `pending`, `leased`, `failed`, `done` or `dead`.
    status: &'static str,
    /// Why it is dead.
    reason: Option<String>,
    /// Deliveries that ended badly.
    attempts: u32,
    /// Leases that ran out.
    lost: u32,
    last_error: Option<String>,
    created_at: String,
    next_attempt_at: Option<String>,
    locked_until: Option<String>,
    owner: Option<String>,
    processed_at: Option<String>,
    processed_by: Option<String>,
    payload_bytes: u64,
    /// Whether its row can be decoded. The fields below are `null` if not.
    decodable: bool,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    ordering_key: Option<String>,
    idempotency_key: Option<String>,
    correlation_id: Option<String>,
    causation_id: Option<String>,
    occurred_at: Option<String>,
    due_at: Option<String>,
    expires_at: Option<String>,
    priority: Option<i16>,
    content_type: Option<String>,
    /// Of a received message: its sender.
    source: Option<String>,
    /// Of a received message: its id at the sender.
    source_message_id: Option<String>,
    /// Of a received message: for whom it is.
    consumer: Option<String>,
}

impl Item {
    pub(crate) fn new(record: &store::Record) -> Self {
        let message = record.message.as_ref();
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        let of = |read: fn(&Message) -> Option<&str>| owned(message.and_then(read));
        let origin = message.and_then(Message::origin);
        Self {
            id: record.id.to_string(),
            topic: record.topic.clone(),
            tenant_id: record.tenant_id.clone(),
            status: status(record),
            reason: record.reason.map(words::reason),
            attempts: record.attempts,
            lost: record.lost,
            last_error: record.last_error.clone(),
            created_at: time(record.created_at),
            next_attempt_at: record.next_attempt_at.map(time),
            locked_until: record.locked_until.map(time),
            owner: record.owner.map(|owner| owner.to_string()),
            processed_at: record.processed_at.map(time),
            processed_by: record.processed_by.map(|owner| owner.to_string()),
            payload_bytes: record.payload_bytes,
            decodable: message.is_some(),
            aggregate_type: of(|message| message.aggregate_type().map(AsRef::as_ref)),
            aggregate_id: of(|message| message.aggregate_id().map(AsRef::as_ref)),
            ordering_key: of(|message| message.ordering_key().map(AsRef::as_ref)),
            idempotency_key: message
                .and_then(Message::idempotency_key)
                .map(|key| key.as_uuid().to_string()),
            correlation_id: of(|message| message.correlation_id().map(AsRef::as_ref)),
            causation_id: of(|message| message.causation_id().map(AsRef::as_ref)),
            occurred_at: message.and_then(Message::occurred_at).map(time),
            due_at: message.and_then(Message::due).and_then(at).map(time),
            expires_at: message.and_then(Message::expires).and_then(at).map(time),
            priority: message.map(Message::priority),
            content_type: message.map(|message| message.content_type().to_owned()),
            source: origin.map(|origin| origin.source.to_string()),
            source_message_id: origin.map(|origin| origin.message_id.to_string()),
            consumer: origin.map(|origin| origin.consumer.to_string()),
        }
    }
}

/// What people call it: a message that waits after a bad attempt has failed.
fn status(record: &store::Record) -> &'static str {
    match record.state {
        State::Ready if record.attempts > 0 => "failed",
        State::Ready => "pending",
        State::Leased => "leased",
        State::Done => "done",
        State::Dead => "dead",
    }
}

/// A stored time is absolute; a distance only exists before a message is written.
fn at(when: When) -> Option<Timestamp> {
    match when {
        When::At(time) => Some(time),
        When::After(_) => None,
    }
}

/// One message with its history, without its payload.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Detail {
    #[serde(flatten)]
    message: Item,
    /// By name. The values are `null` without the right to see payloads.
    headers: BTreeMap<String, Option<String>>,
    /// Bad attempts and lost leases, oldest first.
    history: Vec<Attempt>,
}

/// A bad attempt or a lost lease.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Attempt {
    at: String,
    /// Who had the lease.
    by: Option<String>,
    lease_lost: bool,
    error: Option<String>,
}

impl Detail {
    pub(super) fn new(detail: &store::Detail, with_values: bool) -> Self {
        let history = detail.history.iter().map(|attempt| Attempt {
            at: time(attempt.at),
            by: attempt.by.map(|owner| owner.to_string()),
            lease_lost: attempt.lease_lost,
            error: attempt.error.clone(),
        });
        let headers = detail.record.message.as_ref().map(Message::headers);
        Self {
            message: Item::new(&detail.record),
            headers: headers.map(|headers| shown(headers, with_values)).unwrap_or_default(),
            history: history.collect(),
        }
    }
}

fn shown(headers: &Headers, with_values: bool) -> BTreeMap<String, Option<String>> {
    let value = |value: &str| with_values.then(|| value.to_owned());
    headers.iter().map(|(name, text)| (name.to_owned(), value(text))).collect()
}

/// What became of a message that was to be published.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Published {
    pub(super) id: String,
    /// Whether there was one with this id or idempotency key. Then nothing was written.
    pub(super) already_existed: bool,
    /// Whether that one says the same.
    pub(super) same_content: bool,
}

/// What became of messages that were named, or would.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Outcome {
    /// Whether nothing was changed.
    dry_run: bool,
    /// It was done to these.
    applied: Vec<String>,
    refused: Vec<Refused>,
}

/// A message that was left as it is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Refused {
    id: String,
    /// `no_such_message`, `not_dead`, `being_handled`, `done` or `undecodable`.
    reason: String,
}

impl Outcome {
    pub(super) fn new(changed: &Changed, dry_run: bool) -> Self {
        let refused = changed.refused.iter();
        Self {
            dry_run,
            applied: changed.applied.iter().map(ToString::to_string).collect(),
            refused: refused
                .map(|(id, why)| Refused { id: id.to_string(), reason: one_word(why.as_str()) })
                .collect(),
        }
    }
}

fn one_word(words: &str) -> String {
    words.replace(' ', "_")
}

/// How many messages a filter finds.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DryRun {
    dry_run: bool,
    matched: u64,
    /// Whether there are more that were not counted.
    more: bool,
    /// How many of each topic.
    topics: BTreeMap<String, u64>,
    /// When the oldest of them was written.
    oldest: Option<String>,
}

impl From<Plan> for DryRun {
    fn from(Plan { matched, more, topics, oldest }: Plan) -> Self {
        Self { dry_run: true, matched, more, topics, oldest: oldest.map(time) }
    }
}

/// What a purge could delete at most.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PurgeDryRun {
    dry_run: bool,
    done_at_most: u64,
    dead_at_most: u64,
}

impl From<PurgePlan> for PurgeDryRun {
    fn from(PurgePlan { done_at_most, dead_at_most }: PurgePlan) -> Self {
        Self { dry_run: true, done_at_most, dead_at_most }
    }
}

/// Work in the background.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobView {
    id: String,
    store: String,
    r#box: &'static str,
    /// `replay`, `discard` or `purge`.
    action: &'static str,
    /// What it acts on, in words.
    target: String,
    by: String,
    reason: Option<String>,
    /// `running`, `done`, `cancelled` or `failed`.
    state: &'static str,
    /// Messages that were changed or deleted.
    applied: u64,
    /// Messages that others had changed meanwhile, by reason.
    refused: BTreeMap<String, u64>,
    /// Messages that match but were written, or died, after it began.
    too_new: u64,
    began_at: String,
    ended_at: Option<String>,
    error: Option<String>,
}

impl JobView {
    pub(super) fn new(job: &Job) -> Self {
        let progress = job.progress();
        Self {
            id: job.id.to_string(),
            store: job.database.clone(),
            r#box: job.kind,
            action: match &job.task {
                Task::Act { act: Act::Replay, .. } => "replay",
                Task::Act { act: Act::Discard, .. } => "discard",
                Task::Purge(_) => "purge",
            },
            target: words::task(&job.task),
            by: job.by.clone(),
            reason: job.reason.clone(),
            state: progress.state.as_str(),
            applied: progress.applied,
            refused: progress.refused.iter().map(|(why, n)| (one_word(why), *n)).collect(),
            too_new: progress.too_new,
            began_at: time(job.began_at),
            ended_at: progress.ended_at.map(time),
            error: progress.error,
        }
    }
}

/// A list, and where it goes on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Items<T> {
    pub(super) items: Vec<T>,
    /// Where the next page begins; `null` at the end.
    pub(super) next: Option<String>,
}

impl<T> Items<T> {
    /// A list that has no pages.
    pub(super) fn all(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

/// Whether anything changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    /// Whether it was not so before.
    pub(super) changed: bool,
}
