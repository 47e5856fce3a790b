//! What answers about boxes look like: figures, topics, failures, keys, dispatchers, joins, audit.

use postroom_core::store::{self, Block};
use serde::Serialize;
use utoipa::ToSchema;

use crate::desk::failures::Group;
use crate::desk::words;
use crate::desk::words::time;
use crate::sampler::{Point, Sample};

/// A box with its last figures.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BoxView {
    store: String,
    r#box: &'static str,
    /// When it was looked at.
    at: String,
    /// `null` while the database does not answer.
    stats: Option<Figures>,
    /// `null` until it was looked at twice.
    rates: Option<Rates>,
    /// How many dispatchers are alive.
    dispatchers: usize,
    /// Whether the whole box is paused.
    paused: bool,
}

/// How many messages are in which state.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Figures {
    ready: u64,
    waiting: u64,
    leased: u64,
    failed: u64,
    done: u64,
    dead: u64,
    oldest_ready_seconds: Option<f64>,
}

/// Messages per second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Rates {
    written: f64,
    delivered: f64,
    failed: f64,
}

impl BoxView {
    pub(crate) fn new(store: &str, kind: &'static str, sample: &Sample) -> Self {
        let seen = sample.seen.as_ref();
        let figures = |stats: &store::Stats| Figures {
            ready: stats.ready,
            waiting: stats.waiting,
            leased: stats.leased,
            failed: stats.failed,
            done: stats.done,
            dead: stats.dead,
            oldest_ready_seconds: stats.oldest_ready.map(|age| age.as_secs_f64()),
        };
        let rates = |point: &Point| Rates {
            written: point.written,
            delivered: point.delivered,
            failed: point.failed,
        };
        Self {
            store: store.to_owned(),
            r#box: kind,
            at: time(sample.at),
            stats: seen.map(|seen| figures(&seen.stats)),
            rates: sample.points.last().filter(|_| sample.points.len() > 1).map(rates),
            dispatchers: seen
                .map_or(0, |seen| seen.nodes.iter().filter(|node| node.is_live).count()),
            paused: seen.is_some_and(|seen| seen.pauses.iter().any(|pause| pause.topic.is_none())),
        }
    }
}

/// A topic with what is not delivered of it, or that is paused.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct TopicView {
    pub(super) topic: String,
    /// Ready, waiting or held.
    pub(super) live: u64,
    /// Of those: wait for a retry.
    pub(super) failed: u64,
    /// Dead letters that are not discarded.
    pub(super) dead: u64,
    pub(super) pause: Option<PauseView>,
}

/// A pause in force.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct PauseView {
    since: String,
    by: Option<String>,
    reason: Option<String>,
}

impl PauseView {
    pub(super) fn new(pause: &store::PauseRecord) -> Self {
        let store::PauseRecord { since, by, reason, .. } = pause.clone();
        Self { since: time(since), by, reason }
    }
}

/// What is not delivered, by topic.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Topics {
    /// The pause of the whole box.
    pub(super) pause: Option<PauseView>,
    pub(super) items: Vec<TopicView>,
}

/// Failures of one topic that look alike.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailureView {
    topic: String,
    /// Why they are dead; `null` for messages that will be tried again.
    reason: Option<String>,
    /// The error, with what differs between them replaced by words in angle brackets.
    pattern: String,
    count: u64,
    /// One of them: the newest.
    example: String,
    /// Its error.
    error: Option<String>,
    first_at: String,
    last_at: String,
}

impl From<Group> for FailureView {
    fn from(group: Group) -> Self {
        Self {
            topic: group.topic,
            reason: group.reason.map(words::reason),
            pattern: group.pattern,
            count: group.count,
            example: group.example.to_string(),
            error: group.error,
            first_at: time(group.first),
            last_at: time(group.last),
        }
    }
}

/// An ordering key that stands still.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyView {
    ordering_key: Option<String>,
    tenant_id: Option<String>,
    /// The message that stops it.
    by: String,
    topic: String,
    /// `retry` or `halted`.
    block: &'static str,
    /// When that message is tried again.
    until: Option<String>,
    /// How many messages lie behind it, counted up to 1,000.
    behind: u32,
}

impl From<&store::BlockedKey> for KeyView {
    fn from(key: &store::BlockedKey) -> Self {
        let (block, until) = match key.block {
            Block::Retry { until } => ("retry", Some(time(until))),
            Block::Halted => ("halted", None),
        };
        Self {
            ordering_key: key.ordering_key.clone(),
            tenant_id: key.tenant_id.clone(),
            by: key.by.to_string(),
            topic: key.topic.clone(),
            block,
            until,
            behind: key.behind,
        }
    }
}

/// A dispatcher that was heard of lately.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeView {
    owner: String,
    name: String,
    version: String,
    started_at: String,
    seen_at: String,
    is_live: bool,
    draining: bool,
    /// How many messages it holds.
    leases: u64,
    /// How many of the slots of ordered messages it owns.
    slots: u32,
}

impl From<&store::Node> for NodeView {
    fn from(node: &store::Node) -> Self {
        Self {
            owner: node.owner.to_string(),
            name: node.name.clone(),
            version: node.version.clone(),
            started_at: time(node.started_at),
            seen_at: time(node.seen_at),
            is_live: node.is_live,
            draining: node.draining,
            leases: node.leases,
            slots: node.slots,
        }
    }
}

/// An entry of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditView {
    /// Later ones are higher.
    number: i64,
    at: String,
    actor: String,
    action: String,
    target: String,
    outcome: String,
    /// How many messages were changed.
    changed: u64,
}

impl From<store::AuditRecord> for AuditView {
    fn from(store::AuditRecord { number, at, entry }: store::AuditRecord) -> Self {
        let store::AuditEntry { actor, action, target, outcome, changed } = entry;
        Self { number, at: time(at), actor, action, target, outcome, changed }
    }
}

/// A join.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JoinView {
    id: String,
    /// `open`, `succeeded`, `failed` or `cancelled`.
    state: &'static str,
    /// How many members it waits for.
    expected: u32,
    attached: u32,
    done: u32,
    dead: u32,
    created_at: String,
    ended_at: Option<String>,
    /// The message that its end published.
    follow_up: Option<String>,
}

impl From<store::JoinRecord> for JoinView {
    fn from(join: store::JoinRecord) -> Self {
        Self {
            id: join.id.to_string(),
            state: join.state.as_str(),
            expected: join.expected,
            attached: join.attached,
            done: join.done,
            dead: join.dead,
            created_at: time(join.created_at),
            ended_at: join.ended_at.map(time),
            follow_up: join.follow_up.map(|id| id.to_string()),
        }
    }
}

/// A member of a join.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemberView {
    /// The message; it may be purged by now.
    message: String,
    /// `done` or `dead`; `null` while it is not settled.
    outcome: Option<&'static str>,
}

impl From<store::JoinMember> for MemberView {
    fn from(member: store::JoinMember) -> Self {
        let outcome = member.outcome.map(|outcome| match outcome {
            store::MemberOutcome::Done => "done",
            store::MemberOutcome::Dead => "dead",
        });
        Self { message: member.message.to_string(), outcome }
    }
}
