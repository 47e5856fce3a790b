//! Where messages go: a handler in this process, or a broker. The dispatcher knows no difference.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lifecycle::Outcome;
use crate::message::Message;
use crate::store::BoxFuture;

/// Takes messages, and says of each how that ended.
///
/// Delivery is at least once: after a crash, a lost lease or a lost answer the same message comes
/// again, with the same id and the same bytes.
pub trait Sink: Send + Sync + 'static {
    /// Delivers up to [`max_batch`](Self::max_batch) messages; answers in their order.
    ///
    /// A missing answer counts as a failure. The future is dropped when its time is up.
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>>;

    /// How many messages one call may take. Default 1.
    fn max_batch(&self) -> usize {
        1
    }

    /// Whether a batch may hold several messages of one ordering key. It then takes them in order
    /// and stops at the first that fails; what comes behind that one is given back whatever the
    /// answer says, and the whole may come again. Default: no, one at a time.
    fn takes_runs(&self) -> bool {
        false
    }

    /// Whether it takes messages of any topic. One that gives some back gets no messages with an
    /// ordering key: it would stop their keys. Default: yes.
    fn takes_every_topic(&self) -> bool {
        true
    }
}

/// A message on its way, and what its handler may know about that.
#[derive(Clone, Debug)]
pub struct Delivery {
    message: Message,
    attempt: u32,
    deadline: Instant,
    cancelled: CancellationToken,
}

impl Delivery {
    pub(crate) fn new(
        message: Message,
        attempt: u32,
        deadline: Instant,
        cancelled: CancellationToken,
    ) -> Self {
        Self { message, attempt, deadline, cancelled }
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
}
