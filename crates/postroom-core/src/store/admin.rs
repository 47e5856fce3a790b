//! For people: look, count, replay, pause, set up.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::{
    AuditEntry, AuditRecord, BlockedKey, BoxFuture, Changed, Cursor, Failing, JoinMember,
    JoinRecord, ListJoins, Node, Pause, PauseRecord, Store, TopicStats,
};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::{JoinId, MessageId, OwnerToken, WorkId};
use crate::lifecycle::{DeadReason, State};
use crate::message::Message;
use crate::text::Topic;

/// For people: look, count, replay, pause, set up. None of it is on the way of a message.
pub trait AdminStore: Store {
    /// One page of messages, newest first, without their payloads. A call looks at a bounded number
    /// of messages: see [`Page::next`]. Each record is read a moment after it was found, and shows
    /// what it is then.
    fn list<'a>(&'a self, list: &'a List) -> BoxFuture<'a, Result<Page>>;

    /// One message with its payload and the history of its attempts.
    fn get(&self, id: MessageId) -> BoxFuture<'_, Result<Option<Detail>>>;

    /// How many messages are in which state.
    fn stats(&self) -> BoxFuture<'_, Result<Stats>>;

    /// Makes dead messages ready again, each with its place in the queue, its priority and its
    /// history, but with counters set back and without an expiry. One that is due later waits for
    /// that. A key that was halted by one goes on with it.
    ///
    /// It begins by deleting the settled row, as a purge does: who gets no row does nothing. So of
    /// two replays one counts, and what is live or done is never replayed.
    fn replay<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>>;

    /// Makes messages that nobody holds dead, as discarded, and lets the keys go on that they
    /// stopped. A dead one stays dead and is discarded from now on, so that it is kept no longer
    /// than a done one. A discarded message can still be replayed.
    fn discard<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>>;

    /// Pauses a topic or the whole queue: after this nothing of it is claimed or born leased. A
    /// dispatcher notices within a second and gives back what it has queued instead of starting it;
    /// what runs finishes. Answers whether that is new; an older pause stays as it is.
    fn pause<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Result<bool>>;

    /// Ends a pause of this topic, or the one of the whole queue, and no other. Answers whether
    /// there was one.
    fn resume<'a>(&'a self, topic: Option<&'a Topic>) -> BoxFuture<'a, Result<bool>>;

    /// The pauses in force: that of the whole queue first, then by topic.
    fn pauses(&self) -> BoxFuture<'_, Result<Vec<PauseRecord>>>;

    /// One join. Joins belong to both boxes of a database.
    fn join(&self, id: JoinId) -> BoxFuture<'_, Result<Option<JoinRecord>>>;

    /// One page of joins, newest first.
    fn joins<'a>(&'a self, list: &'a ListJoins) -> BoxFuture<'a, Result<Vec<JoinRecord>>>;

    /// Members of a join in the order of their ids, those after `after`; at most 500.
    fn join_members(
        &self,
        id: JoinId,
        after: Option<MessageId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<JoinMember>>>;

    /// Ends an open join without a follow-up, for good. Answers whether it was open.
    fn cancel_join(&self, id: JoinId) -> BoxFuture<'_, Result<bool>>;

    /// Dispatchers that [were heard of](Store::report) within the last day: the live ones first,
    /// then by start; at most 1,000. It changes nothing.
    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>>;

    /// What is not delivered, by topic: the ones with most first, then by name; at most `limit`. It
    /// reads live rows and dead letters, never what is done.
    fn topics(&self, limit: u32) -> BoxFuture<'_, Result<Vec<TopicStats>>>;

    /// What went wrong lately, last first: the dead letters that died last, but discarded ones, and
    /// the newest of the messages that will be tried again; at most `limit` of each.
    fn failing(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Failing>>>;

    /// Ordering keys that stand still, at most `limit`: first those that a dead message stops, then
    /// those whose first message waits for its next try; each by the message that stops them,
    /// oldest first. For the latter it looks at [`BlockedKey::MOST_KEYS`] keys.
    fn blocked_keys(&self, limit: u32) -> BoxFuture<'_, Result<Vec<BlockedKey>>>;

    /// Writes an entry of the audit log, which both boxes of a database share.
    fn write_audit<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<()>>;

    /// The audit log, newest first: entries with a number below `before`, at most `limit` and never
    /// more than 500.
    fn audit(&self, before: Option<i64>, limit: u32) -> BoxFuture<'_, Result<Vec<AuditRecord>>>;

    /// Brings the schema up to date; safe when many processes start at once.
    fn migrate(&self) -> BoxFuture<'_, Result<Migrated>>;

    /// Fails with `Schema` and the command that fixes it, unless the schema fits this version.
    fn check_schema(&self) -> BoxFuture<'_, Result<()>>;
}

/// A filter and a page. What is `None` filters nothing.
///
/// Lists of everything, of dead letters, of what is not settled yet, of one aggregate (by its type
/// and its id) and of one ordering key walk an index. Anything else is looked for there, newest
/// first, in a bounded number of messages per call: see [`Page::next`].
///
/// Newest first is by the ids of messages, but [in the order of the queue](Self::follows_queue) for
/// what is not settled yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Only these.
    pub status: Option<Status>,
    /// Only this topic.
    pub topic: Option<String>,
    /// Only topics that start with this.
    pub topic_prefix: Option<String>,
    /// Only this tenant.
    pub tenant: Option<String>,
    /// Only aggregates of this type.
    pub aggregate_type: Option<String>,
    /// Only aggregates with this id.
    pub aggregate_id: Option<String>,
    /// Only this ordering key.
    pub ordering_key: Option<String>,
    /// Written then or later.
    pub since: Option<Timestamp>,
    /// Written before.
    pub until: Option<Timestamp>,
    /// Only with this text somewhere in the last error. Case matters, in every database.
    pub error: Option<String>,
    /// Only with at least so many bad attempts.
    pub min_attempts: Option<u32>,
    /// Only dead ones of this reason.
    pub reason: Option<DeadReason>,
    /// Older than this: [`Page::next`] of the page before.
    pub before: Option<Cursor>,
    /// How many at most. Default 50; at most 500.
    pub limit: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            status: None,
            topic: None,
            topic_prefix: None,
            tenant: None,
            aggregate_type: None,
            aggregate_id: None,
            ordering_key: None,
            since: None,
            until: None,
            error: None,
            min_attempts: None,
            reason: None,
            before: None,
            limit: 50,
        }
    }
}

impl List {
    /// Whether it says more than stores find by an index alone.
    #[must_use]
    pub fn is_search(&self) -> bool {
        let plain = Self { before: self.before, limit: self.limit, ..Self::default() };
        let dead = Self { status: Some(Status::Dead), ..plain.clone() };
        let key = Self { ordering_key: self.ordering_key.clone(), ..plain.clone() };
        let aggregate = Self {
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
            ..plain.clone()
        };
        let by_aggregate = self.names_aggregate() && *self == aggregate;
        *self != plain && *self != dead && *self != key && !by_aggregate
    }

    /// Whether it lists what is not settled yet, by its place in the queue, last first. Of one
    /// aggregate and of one ordering key everything is in the order of ids.
    #[must_use]
    pub fn follows_queue(&self) -> bool {
        let is_live =
            matches!(self.status, Some(Status::Pending | Status::Leased | Status::Failed));
        is_live && !self.names_aggregate() && self.ordering_key.is_none()
    }

    /// The place of a record in it.
    #[must_use]
    pub fn place_of(&self, record: &Record) -> Cursor {
        Cursor { id: record.id, work: self.follows_queue().then_some(record.work) }
    }

    /// Whether it says both parts of an aggregate's name.
    #[must_use]
    pub fn names_aggregate(&self) -> bool {
        self.aggregate_type.is_some() && self.aggregate_id.is_some()
    }
}

/// What a list found.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Newest first.
    pub records: Vec<Record>,
    /// Where the next page begins, as its [`List::before`]; nothing when there is none. A search
    /// that looked at enough messages stops here with a page that is not full, or even empty.
    pub next: Option<Cursor>,
}

/// What people filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Ready, whether due or waiting.
    Pending,
    /// Somebody holds it.
    Leased,
    /// Ready again after a bad attempt.
    Failed,
    /// Delivered.
    Done,
    /// A dead letter.
    Dead,
}

impl Status {
    /// Whether a message is one of these. A failed one is pending, too.
    #[must_use]
    pub fn contains(self, record: &Record) -> bool {
        match self {
            Self::Pending => record.state == State::Ready,
            Self::Failed => record.state == State::Ready && record.attempts > 0,
            Self::Leased => record.state == State::Leased,
            Self::Done => record.state == State::Done,
            Self::Dead => record.state == State::Dead,
        }
    }
}

/// A message with its delivery state.
#[derive(Clone, Debug)]
pub struct Record {
    /// The message; nothing when its row can not be decoded. In a list it has no payload.
    pub message: Option<Message>,
    /// How many bytes its payload has.
    pub payload_bytes: u64,
    /// The identity, which can always be read.
    pub id: MessageId,
    /// Its place in the queue.
    pub work: WorkId,
    /// The topic as stored.
    pub topic: String,
    /// The tenant as stored.
    pub tenant_id: Option<String>,
    /// The state.
    pub state: State,
    /// Why it is dead.
    pub reason: Option<DeadReason>,
    /// When it was written.
    pub created_at: Timestamp,
    /// Deliveries that ended badly.
    pub attempts: u32,
    /// Leases that ran out.
    pub lost: u32,
    /// When it will be tried, if it waits.
    pub next_attempt_at: Option<Timestamp>,
    /// When its lease runs out.
    pub locked_until: Option<Timestamp>,
    /// Who holds it.
    pub owner: Option<OwnerToken>,
    /// The error of its last bad attempt; cleared by done.
    pub last_error: Option<String>,
    /// When it was settled.
    pub processed_at: Option<Timestamp>,
    /// By whom.
    pub processed_by: Option<OwnerToken>,
}

/// A message with its delivery state and what happened to it.
#[derive(Clone, Debug)]
pub struct Detail {
    /// The message and its state.
    pub record: Record,
    /// Bad attempts and lost leases, oldest first.
    pub history: Vec<Attempt>,
}

/// A bad attempt or a lost lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it was recorded.
    pub at: Timestamp,
    /// Who had the lease.
    pub by: Option<OwnerToken>,
    /// Whether the lease ran out, rather than the handler saying no.
    pub lease_lost: bool,
    /// What the handler said.
    pub error: Option<String>,
}

/// How many messages are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Can be claimed now.
    pub ready: u64,
    /// Wait for their time.
    pub waiting: u64,
    /// Are held, or were by somebody whose lease ran out.
    pub leased: u64,
    /// Of the ready and waiting: had a bad attempt.
    pub failed: u64,
    /// Delivered and kept.
    pub done: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest one that can be claimed has been there.
    #[serde(serialize_with = "seconds")]
    pub oldest_ready: Option<Duration>,
}

fn seconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

/// What a migration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 for an empty database.
    pub from: u32,
    /// The version now.
    pub to: u32,
}
