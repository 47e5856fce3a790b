//! Where messages go: a handler in this process, or a broker. The dispatcher knows no difference.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Span;

use crate::handler::HandlerResult;
use crate::ids::{Lease, LeaseToken, OwnerToken, WorkId};
use crate::lifecycle::Outcome;
use crate::message::Message;
use crate::store::BoxFuture;
use crate::text::Topic;

/// Takes messages, and says of each how that ended.
///
/// Delivery is at least once: after a crash, a lost lease or a lost answer the same message comes
/// again, with the same id and the same bytes.
///
/// A sink may wrap another one, to do something around each call; an [`Interceptor`] is the simpler
/// way to look at single messages.
pub trait Sink: Send + Sync + 'static {
    /// Delivers messages that may share a [call](Self::call); answers in their order.
    ///
    /// A missing answer counts as a failure. The future is dropped when its time is up.
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>>;

    /// How many messages one call may take. Default 1.
    fn max_batch(&self) -> usize {
        1
    }

    /// Which call a message of this topic goes into. Default: any messages share one, up to
    /// [`max_batch`](Self::max_batch).
    fn call(&self, _topic: &Topic) -> Call {
        Call { group: 0, most: self.max_batch() }
    }

    /// Whether a batch may hold several messages of one ordering key. It then takes them in order
    /// and stops at the first that fails; what comes behind that one is given back whatever the
    /// answer says, and the whole may come again. Default: no, one at a time.
    fn takes_runs(&self) -> bool {
        false
    }

    /// Whether it takes messages of this topic. Others are left to other processes: given back once
    /// and not claimed for a minute. Default: yes.
    fn takes(&self, _topic: &Topic) -> bool {
        true
    }

    /// Whether it takes messages of any topic. One that leaves some to others gets no messages with
    /// an ordering key: it would stop their keys. Default: yes.
    fn takes_every_topic(&self) -> bool {
        true
    }
}

impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        (**self).deliver(batch)
    }

    fn max_batch(&self) -> usize {
        (**self).max_batch()
    }

    fn call(&self, topic: &Topic) -> Call {
        (**self).call(topic)
    }

    fn takes_runs(&self) -> bool {
        (**self).takes_runs()
    }

    fn takes(&self, topic: &Topic) -> bool {
        (**self).takes(topic)
    }

    fn takes_every_topic(&self) -> bool {
        (**self).takes_every_topic()
    }
}

/// Which messages a sink takes in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Messages with the same number may share it.
    pub group: usize,
    /// How many at most.
    pub most: usize,
}

/// Looks at every message before and after it is handled, whatever the sink is: for audit, checks
/// and measurements.
///
/// Several are called in the order in which they were added, and afterwards in the reverse order.
///
/// ```
/// use postroom_core::lifecycle::Outcome;
/// use postroom_core::store::BoxFuture;
/// use postroom_core::{Delivery, HandlerError, HandlerResult, Interceptor};
///
/// struct OnlyKnownTenants;
///
/// impl Interceptor for OnlyKnownTenants {
///     fn before<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, HandlerResult> {
///         Box::pin(async move {
///             match delivery.message().tenant_id() {
///                 Some(_) => Ok(()),
///                 None => Err(HandlerError::dead("no tenant")),
///             }
///         })
///     }
/// }
/// ```
pub trait Interceptor: Send + Sync + 'static {
    /// Called first, with all messages of one call of the sink. They share a
    /// [span](Delivery::span).
    fn call_begins(&self, _batch: &[Delivery]) {}

    /// Called before a message is handled, within the time that its handler has. An error takes the
    /// place of the handler's answer, and the handler is not called.
    fn before<'a>(&'a self, _delivery: &'a Delivery) -> BoxFuture<'a, HandlerResult> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Called with what came of it, also of what panicked, ran out of time or was refused before.
    /// Not called when the lease was lost: what came of that message is somebody else's to tell.
    fn after<'a>(&'a self, _delivery: &'a Delivery, _outcome: &'a Outcome) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Called last, with what came of each message, in their order; not when all leases were lost.
    fn call_ended(&self, _batch: &[Delivery], _outcomes: &[Outcome]) {}
}

/// A message on its way, and what its handler may know about that.
#[derive(Clone, Debug)]
pub struct Delivery {
    message: Message,
    attempt: u32,
    deadline: Instant,
    cancelled: CancellationToken,
    span: Span,
    right: Right,
    settled: Arc<AtomicBool>,
}

/// What a delivery can be settled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) owner: OwnerToken,
    pub(crate) lease: Lease,
}

impl Delivery {
    pub(crate) fn new(
        message: Message,
        attempt: u32,
        deadline: Instant,
        cancelled: CancellationToken,
        span: Span,
        right: Right,
    ) -> Self {
        Self { message, attempt, deadline, cancelled, span, right, settled: Arc::default() }
    }

    /// A delivery that no dispatcher made, to call a sink or a handler with in a test. Its first
    /// attempt of a message that nobody leased: there is nothing to settle.
    #[must_use]
    pub fn detached(message: Message, time: Duration) -> Self {
        let lease = Lease { work: WorkId::new(0), token: LeaseToken::random() };
        let right = Right { owner: OwnerToken::random(), lease };
        let (deadline, cancelled) = (Instant::now() + time, CancellationToken::new());
        Self::new(message, 1, deadline, cancelled, Span::none(), right)
    }

    pub(crate) fn right(&self) -> Right {
        self.right
    }

    /// Says that the message is settled as done, in the transaction of its handler.
    pub(crate) fn set_settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Which attempt this is; the first is 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How long the handler has.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Is cancelled when the lease was lost: what follows is in vain, and soon somebody else's
    /// work.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// The span of this delivery, which all messages of one call of the sink share. A
    /// [handler](crate::Handlers) runs inside it.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }
}
