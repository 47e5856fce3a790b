//! What a sink brings to the suite, and what a case gets.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, SystemTime};

use postroom_core::lifecycle::Outcome;
use postroom_core::{Delivery, Message, MessageBuilder, Sink};
use tokio::time::{Instant, sleep};

use super::proxy::Proxy;

/// A sink under test, with a place of its own at a real receiver.
pub trait SinkHarness: Sized + Send + Sync + 'static {
    /// The sink.
    type Sink: Sink;
    /// How often to kill the receiver. Less than twice for one that takes long to start.
    const KILLS: usize = 2;

    /// A fresh place at a receiver that is shared with other tests. Messages with the harness's
    /// [tenant](Self::tenant) and the aggregate type `order` go there, whatever their topic. The
    /// source of events is `/shop`.
    fn fresh() -> impl Future<Output = Self> + Send;
    /// A fresh place at a receiver of its own, which can be killed. Called on the test's thread.
    fn private() -> impl Future<Output = Self>;
    /// Kills the receiver, or starts it again with what it has stored.
    fn receiver(&mut self, order: Receiver) -> impl Future<Output = ()>;
    /// What stands between the sink and the receiver.
    fn proxy(&self) -> &Proxy;
    /// The tenant of the messages.
    fn tenant(&self) -> &str;
    /// A sink that goes through the proxy.
    fn sink(&self, settings: Settings) -> Self::Sink;
    /// All that the receiver has stored, in its order, asked without the proxy.
    fn stored(&self) -> impl Future<Output = Vec<Stored>> + Send;
    /// Whether the receiver keeps one of two messages with the same id.
    fn dedupes(&self) -> bool;
    /// Messages of which the sink must say at once that they can never be sent, at least one. The
    /// first has the harness's tenant.
    fn unsendable(&self) -> Vec<MessageBuilder>;
    /// A payload that is too large for the receiver, if one fits into a test.
    fn oversize(&self) -> Option<usize>;
    /// Whether the receiver speaks before it takes messages, so that a mute one is known to be
    /// away. Default: no.
    fn greets(&self) -> bool {
        false
    }
}

/// What to do to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// End it as a crash does.
    Killed,
    /// Start it again.
    Back,
}

/// How a case wants its sink.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How events travel.
    pub format: Format,
    /// How long a send may take.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { format: Format::Binary, timeout: Duration::from_secs(10) }
    }
}

impl Settings {
    /// With less patience, for cases in which no answer comes.
    #[must_use]
    pub fn impatient() -> Self {
        Self { timeout: Duration::from_secs(1), ..Self::default() }
    }
}

/// How events travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Attributes beside the payload.
    Binary,
    /// The event in one piece.
    Structured,
}

/// A message as the receiver has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// By what the receiver, or whoever reads, recognises it.
    pub id: String,
    /// The attributes of the event, without the type of the data.
    pub attributes: BTreeMap<String, String>,
    /// The type of the payload, or of the event in one piece.
    pub content_type: String,
    /// The payload, or the event in one piece.
    pub payload: Vec<u8>,
    /// Everything else that came with it, by name.
    pub headers: BTreeMap<String, String>,
}

impl Stored {
    /// An attribute, which must be there.
    ///
    /// # Panics
    /// When it is not.
    #[must_use]
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).unwrap_or_else(|| panic!("no attribute {name}: {self:?}"))
    }
}

/// A message of the harness with every field that an event shows.
pub(super) fn message<H: SinkHarness>(harness: &H, topic: &str) -> MessageBuilder {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let message = Message::builder(topic).tenant_id(harness.tenant()).occurred_at(time);
    message.aggregate_type("order")
}

/// A message whose payload is a number, on a key.
pub(super) fn numbered<H: SinkHarness>(harness: &H, key: &str, number: usize) -> Message {
    let message = message(harness, "order.placed").ordering_key(key);
    message.payload(number.to_string()).build().expect("legal")
}

/// As the dispatcher would hand them over, with time enough.
pub(super) fn deliveries<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Delivery> {
    let time = Duration::from_secs(60);
    messages.into_iter().map(|message| Delivery::detached(message.clone(), time)).collect()
}

/// Hands one message over, once.
pub(super) async fn deliver_one(sink: &impl Sink, message: &Message) -> Outcome {
    sink.deliver(&deliveries([message])).await.remove(0)
}

/// Whether it is to be tried again and costs no attempt.
pub(super) fn is_free(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::RetryAfter { counted: false, .. })
}

/// Hands messages over until all are done, as a dispatcher does: in batches, what failed again when
/// its wait is over. Within a key it keeps the order.
pub(super) async fn deliver_all(sink: &impl Sink, messages: &[Message]) {
    let limit = Instant::now() + Duration::from_secs(60);
    let mut rest: Vec<Message> = messages.to_vec();
    while !rest.is_empty() {
        assert!(Instant::now() < limit, "{} of {} are not done", rest.len(), messages.len());
        let some = rest.len().min(sink.max_batch());
        let outcomes = sink.deliver(&deliveries(&rest[..some])).await;
        let mut wait = Duration::ZERO;
        let mut at = 0;
        rest.retain(|_| {
            let outcome = outcomes.get(at).unwrap_or(&Outcome::Unstarted);
            at += 1;
            match outcome {
                Outcome::Permanent(why) => panic!("dead: {why}"),
                Outcome::RetryAfter { delay, .. } => wait = wait.max(*delay),
                Outcome::Failed(_) => wait = wait.max(Duration::from_millis(50)),
                Outcome::Done | Outcome::Unstarted => {}
            }
            *outcome != Outcome::Done
        });
        sleep(wait).await;
    }
}

/// Waits until the receiver has stored so many.
pub(super) async fn until_stored<H: SinkHarness>(harness: &H, count: usize) -> Vec<Stored> {
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        let stored = harness.stored().await;
        if stored.len() >= count {
            return stored;
        }
        assert!(Instant::now() < limit, "{} of {count} were stored", stored.len());
        sleep(Duration::from_millis(5)).await;
    }
}

/// The numbers that were stored on each key, in order, without those that came again.
pub(super) fn numbers_by_key(stored: &[Stored]) -> BTreeMap<String, Vec<usize>> {
    let mut by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for stored in stored {
        let number = String::from_utf8_lossy(&stored.payload).parse().expect("a number");
        let numbers = by_key.entry(stored.attribute("partitionkey").to_owned()).or_default();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    by_key
}

/// Runs a case on a runtime of its own.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(case);
    // What a case has frozen or cut may hang on for ever.
    runtime.shutdown_background();
}
