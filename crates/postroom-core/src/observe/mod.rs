//! What Postroom tells about itself: every log event and every figure, in one place.
//!
//! One `Observer` belongs to one store handle and its clones. Each of its methods is something
//! that happened; the method writes the log line and counts. Names and fields of log lines are
//! stable, every line carries the store, and payloads and header values are never logged.

mod figures;
mod histogram;
mod load;
mod registry;
mod snapshot;
mod windows;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

pub(crate) use figures::Figures;
pub(crate) use load::{Load, Loads};
pub use registry::*;
pub use snapshot::{Counts, Depth, Latency, Snapshot, Throughput};

use crate::error::Error;
use crate::lifecycle::DeadReason;
use crate::message::Message;
use crate::store::Wakes;

/// Tells what happens to one box of one store.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    store: Arc<str>,
    queue: &'static str,
    figures: Arc<Figures>,
}

impl Observer {
    pub(crate) fn new(store: Arc<str>, queue: &'static str) -> Self {
        let figures = Arc::new(Figures::new(Arc::clone(&store), queue));
        Self { store, queue, figures }
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.figures.snapshot(self.store.to_string(), self.queue)
    }

    pub(crate) fn topics(&self) -> BTreeMap<String, Throughput> {
        self.figures.topics()
    }

    /// A message was written, by a transaction that is about to commit.
    pub(crate) fn enqueued(&self, message: &Message, hot: bool) {
        let topic = message.topic();
        let correlation = message.correlation_id().map(tracing::field::display);
        tracing::info!(store = &*self.store, %topic, correlation, id = %message.id(), "enqueued");
        self.figures.enqueued(message, hot);
    }

    /// A message was not written, because it was there before.
    pub(crate) fn duplicate(&self, message: &Message) {
        let tenant = message.tenant_id().map(tracing::field::display);
        let key = key(message);
        tracing::info!(store = &*self.store, tenant, %key, "OUTBOX_WORKER_DUPLICATE");
        self.figures.duplicate(message);
    }

    /// A message was not received, because its sender gave its name to another one before.
    pub(crate) fn conflict(&self, message: &Message) {
        let (topic, key) = (message.topic(), key(message));
        tracing::warn!(
            store = &*self.store,
            %topic,
            %key,
            "a sender uses one message id for different content; the later message is refused"
        );
        self.figures.conflict(message);
    }

    /// Items came from a claim, which met others that it made dead.
    pub(crate) fn fetched(&self, count: usize, dead: u32, took: Duration) {
        tracing::debug!(store = &*self.store, count, dead, "OUTBOX_WORKER_FETCH");
        self.figures.claimed(count, dead, took);
    }

    /// A message is about to be handled.
    pub(crate) fn handling(&self, message: &Message, attempt: u32) {
        let (topic, id) = (message.topic(), message.id());
        tracing::info!(store = &*self.store, %topic, %id, attempt, "handling a message");
    }

    /// The span of a delivery.
    pub(crate) fn span(&self, message: &Message, attempt: u32) -> Span {
        let (store, topic, id) = (&*self.store, message.topic(), message.id());
        // What is empty here is for a bridge to OpenTelemetry, and shows in no log.
        tracing::info_span!(
            "postroom.handle",
            store,
            %topic,
            %id,
            attempt,
            otel.name = Empty,
            otel.kind = Empty
        )
    }

    /// The span of a call that delivers many; with their topic, if they have the same.
    pub(crate) fn span_of_many<'a>(
        &self,
        messages: impl ExactSizeIterator<Item = &'a Message>,
    ) -> Span {
        let (store, count) = (&*self.store, messages.len());
        let mut topics = messages.map(Message::topic);
        let first = topics.next().filter(|first| topics.all(|topic| topic == *first));
        let topic = first.map(tracing::field::display);
        tracing::info_span!(
            "postroom.handle",
            store,
            topic,
            count,
            otel.name = Empty,
            otel.kind = Empty
        )
    }

    /// A message took effect.
    pub(crate) fn succeeded(&self, message: &Message, took: Took) {
        let (id, key) = (message.id(), key(message));
        tracing::info!(store = &*self.store, %id, %key, "OUTBOX_WORKER_DISPATCH_SUCCESS");
        self.figures.done(message, took);
    }

    /// A message did not, and will be tried again.
    pub(crate) fn failed(&self, message: &Message, retry: u32, max: u32, error: &str, took: Took) {
        let (store, id, key) = (&*self.store, message.id(), key(message));
        tracing::error!(store, %id, %key, retry, max, error, "OUTBOX_WORKER_DISPATCH_FAIL");
        self.figures.failed(message, took);
    }

    /// A message is a dead letter.
    pub(crate) fn died(&self, message: &Message, reason: DeadReason, error: &str) {
        let (store, id, topic) = (&*self.store, message.id(), message.topic());
        tracing::error!(store, %id, %topic, reason = reason.as_str(), error, "a message is dead");
        self.figures.dead(message, reason);
    }

    /// A message that was on its way was not handled, because somebody else has it by now.
    pub(crate) fn skipped(&self, message: &Message) {
        tracing::info!(store = &*self.store, id = %message.id(), "OUTBOX_WORKER_SKIP_PROCESSED");
    }

    /// Leases went to somebody else before they were settled.
    pub(crate) fn lost(&self, count: usize) {
        tracing::warn!(store = &*self.store, count, "leases were lost before they were settled");
        self.figures.lost(count);
    }

    /// Expired leases and expired messages were found by the reaper.
    pub(crate) fn reaped(&self, released: u32, dead: u32) {
        tracing::info!(store = &*self.store, count = released, dead, "expired leases were reaped");
        self.figures.reaped(released, dead);
    }

    /// Messages found no place in the hot queue.
    pub(crate) fn hot_dropped(&self, count: usize) {
        self.figures.hot_dropped(count);
    }

    /// Messages are published faster than they are handled; told once, until there is room again.
    pub(crate) fn hot_queue_full(&self, size: usize) {
        let store = &*self.store;
        tracing::warn!(store, size, "the hot queue is full; further messages wait for a claim");
    }

    /// Messages of a topic are left to others, because nothing here handles them.
    pub(crate) fn left(&self, topic: &crate::text::Topic, seconds: u64) {
        let store = &*self.store;
        tracing::warn!(store, %topic, seconds, "no handler here; the topic is left to others");
    }

    /// An interceptor panicked after the message was handled, which changes nothing for it.
    pub(crate) fn interceptor_panicked(&self, message: &Message, panic: &str) {
        let (store, id) = (&*self.store, message.id());
        tracing::error!(store, %id, panic, "an interceptor panicked");
    }

    /// The database does not answer; told once, until it does again.
    pub(crate) fn outage(&self, during: &str, error: &Error) {
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let store = &*self.store;
        tracing::error!(store, during, error = %error, cause, "the store does not answer");
    }

    /// It answers again.
    pub(crate) fn recovered(&self, during: &str) {
        tracing::info!(store = &*self.store, during, "the store answers again");
    }

    /// Other processes' work is found in another way from now on.
    pub(crate) fn wakes_changed(&self, now: Wakes) {
        let store = &*self.store;
        match now {
            Wakes::InProcess => {}
            Wakes::Listening => tracing::info!(store, "other processes' messages are heard of"),
            Wakes::PollOnly { why } => {
                let why = why.as_str();
                tracing::warn!(store, why, "poll only: other processes' messages come later");
            }
        }
    }
}

/// The span in which a message is created, named as OpenTelemetry has it.
pub(crate) fn create_span(message: &Message) -> Span {
    let (topic, id) = (message.topic(), message.id());
    tracing::info_span!(
        "postroom.publish",
        otel.name = format!("create {topic}"),
        otel.kind = "producer",
        messaging.system = "postroom",
        messaging.operation.name = "create",
        messaging.operation.type = "create",
        messaging.destination.name = %topic,
        messaging.message.id = %id
    )
}

/// Whether messages are sent to a receiver that may be away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Circuit {
    /// They are.
    #[default]
    Closed,
    /// Nobody was there; the next message tries.
    HalfOpen,
    /// Nobody was there, and for a while nobody tries.
    Open,
}

/// How long a delivery took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// In the handler.
    pub(crate) handler: Duration,
    /// Since the message was written.
    pub(crate) total: Duration,
}

/// What people know a message by: where it came from, or its idempotency key, else its id.
fn key(message: &Message) -> impl fmt::Display {
    fmt::from_fn(|f| match (message.origin(), message.idempotency_key()) {
        (Some(origin), _) => {
            write!(f, "{}/{} for {}", origin.source, origin.message_id, origin.consumer)
        }
        (None, Some(key)) => write!(f, "{}", key.as_uuid()),
        (None, None) => write!(f, "{}", message.id()),
    })
}
