//! Handlers: functions that are called with messages, chosen by topic.
//!
//! `?` means "try again"; giving up is explicit. Exact topics come first, then patterns, then those
//! for all, in the order of registration. Several handlers may take one message: the first failure
//! stops it, and its retry runs all of them again, so they must be idempotent.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tracing::{Instrument as _, Span};

use crate::event::Event;
use crate::lifecycle::Outcome;
use crate::pattern::{ByTopic, Topics};
use crate::sink::{Call, Delivery, Sink};
use crate::store::BoxFuture;
use crate::text::Topic;

/// What a handler returns.
pub type HandlerResult = Result<(), HandlerError>;

/// Why a message was not handled. Any error converts into a retry by `?`.
///
/// Deliberately not an error type itself, so that the conversion can cover all of those.
#[derive(Debug)]
pub struct HandlerError(Outcome);

impl HandlerError {
    /// Retrying will not help: a dead letter now.
    pub fn dead(why: impl fmt::Display) -> Self {
        Self(Outcome::Permanent(why.to_string()))
    }

    /// Try again, by the retry policy.
    pub fn retry(why: impl fmt::Display) -> Self {
        Self(Outcome::Failed(why.to_string()))
    }

    /// Try again after this long. It counts as an attempt.
    pub fn retry_after(delay: Duration, why: impl fmt::Display) -> Self {
        Self(Outcome::RetryAfter { delay, counted: true, error: why.to_string() })
    }

    /// Try again after this long, as often as it takes: this was not the message's fault. It leaves
    /// no trace in the message's history; log it if somebody should know.
    pub fn not_now(delay: Duration, why: impl fmt::Display) -> Self {
        Self(Outcome::RetryAfter { delay, counted: false, error: why.to_string() })
    }
}

impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            text.push_str(": ");
            text.push_str(&source.to_string());
            cause = source.source();
        }
        Self(Outcome::Failed(text))
    }
}

/// Something that handles messages; functions and closures are used as they are.
///
/// ```
/// use postroom_core::{Delivery, Handler, HandlerResult, Handlers};
///
/// struct Mailer {
///     from: String,
/// }
///
/// impl Handler for Mailer {
///     async fn handle(&self, delivery: Delivery) -> HandlerResult {
///         let _ = (&self.from, delivery.message().json::<String>()?);
///         Ok(())
///     }
/// }
///
/// let handlers = Handlers::new().handler("mail.*", Mailer { from: "shop".to_owned() });
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Handles one message.
    fn handle(&self, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send;
}

/// What to do with a message that no handler takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownTopic {
    /// Try again by the retry policy: perhaps a newer version of this process knows it.
    #[default]
    Retry,
    /// A dead letter at once.
    Dead,
    /// Leave it to other processes on the same store. A dispatcher that does so gets no messages
    /// with an ordering key, because it can not take those of some topics only.
    Leave,
}

type One = Arc<dyn Fn(Delivery) -> BoxFuture<'static, HandlerResult> + Send + Sync>;
type Many = Arc<dyn Fn(Vec<Delivery>) -> BoxFuture<'static, Vec<HandlerResult>> + Send + Sync>;

#[derive(Clone)]
enum Function {
    One(One),
    Many { most: usize, function: Many },
}

/// Functions by topic; a [`Sink`].
///
/// ```
/// use postroom_core::{Delivery, HandlerError, HandlerResult, Handlers};
///
/// async fn ship(delivery: Delivery) -> HandlerResult {
///     let order: u64 = delivery.message().json()?;
///     if order == 0 {
///         return Err(HandlerError::dead("order 0 can not be shipped"));
///     }
///     Ok(())
/// }
///
/// let handlers = Handlers::new().topic("order.placed", ship).pattern("audit.*", ship);
/// ```
#[derive(Clone, Default)]
pub struct Handlers {
    /// In the order in which they are called.
    handlers: ByTopic<Function>,
    unknown: UnknownTopic,
}

impl Handlers {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls the function with every event of its type. A payload that does not decode is dead at
    /// once.
    #[must_use]
    pub fn on<E, F, R>(self, handler: F) -> Self
    where
        E: Event + DeserializeOwned + Send + 'static,
        F: Fn(E, Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.topic(E::TOPIC, move |delivery: Delivery| {
            let handler = Arc::clone(&handler);
            async move {
                let event = decode(&delivery)?;
                handler(event, delivery).await
            }
        })
    }

    /// Calls the function with messages of exactly this topic.
    #[must_use]
    pub fn topic<F, R>(self, topic: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.with(Topics::Exact(topic.into()), one(handler))
    }

    /// Calls the function with messages whose topic fits: `*` stands for any characters.
    #[must_use]
    pub fn pattern<F, R>(self, pattern: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.with(Topics::Pattern(pattern.into()), one(handler))
    }

    /// Calls the function with all messages.
    #[must_use]
    pub fn all<F, R>(self, handler: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.with(Topics::All, one(handler))
    }

    /// Calls a [`Handler`] with messages of this topic, or whose topic fits this pattern.
    #[must_use]
    pub fn handler(self, topics: impl Into<String>, handler: impl Handler) -> Self {
        let handler = Arc::new(handler);
        let function = one(move |delivery| {
            let handler = Arc::clone(&handler);
            async move { handler.handle(delivery).await }
        });
        self.with(Topics::named(topics.into()), function)
    }

    /// Calls the function with up to `most` messages of this topic, or whose topic fits this
    /// pattern. It answers for each, in their order; a missing answer is a failure. It never waits
    /// for a batch to fill. There is at most one message of an ordering key in it.
    ///
    /// ```
    /// # use postroom_core::{Delivery, HandlerResult, Handlers};
    /// async fn insert(deliveries: Vec<Delivery>) -> Vec<HandlerResult> {
    ///     deliveries.iter().map(|_| Ok(())).collect()
    /// }
    ///
    /// let handlers = Handlers::new().batch("metric.*", 100, insert);
    /// ```
    #[must_use]
    pub fn batch<F, R>(self, topics: impl Into<String>, most: usize, handler: F) -> Self
    where
        F: Fn(Vec<Delivery>) -> R + Send + Sync + 'static,
        R: Future<Output = Vec<HandlerResult>> + Send + 'static,
    {
        let function: Many = Arc::new(move |deliveries| Box::pin(handler(deliveries)));
        self.with(Topics::named(topics.into()), Function::Many { most: most.max(1), function })
    }

    /// What to do with a message that no handler takes. Default: retry.
    #[must_use]
    pub fn unknown(mut self, unknown: UnknownTopic) -> Self {
        self.unknown = unknown;
        self
    }

    fn with(mut self, topics: Topics, function: Function) -> Self {
        self.handlers.add(topics, function);
        self
    }

    fn chosen(&self, topic: &str) -> impl Iterator<Item = (usize, &Function)> {
        let all = self.handlers.iter().enumerate();
        all.filter(move |(_, (topics, _))| topics.contain(topic)).map(|(at, (_, f))| (at, f))
    }

    fn unhandled(&self, topic: &Topic) -> Outcome {
        let error = format!("no handler for topic {topic}");
        match self.unknown {
            UnknownTopic::Retry => Outcome::Failed(error),
            UnknownTopic::Dead => Outcome::Permanent(error),
            UnknownTopic::Leave => Outcome::Unstarted,
        }
    }

    /// Goes through the handlers in order, each with the messages that are its own and have not
    /// failed before.
    async fn handle(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = vec![None; batch.len()];
        for (topics, function) in self.handlers.iter() {
            let fits = |at: &usize| topics.contain(batch[*at].message().topic().as_str());
            let waiting = |at: &usize| matches!(outcomes[*at], None | Some(Outcome::Done));
            let mine: Vec<usize> = (0..batch.len()).filter(waiting).filter(fits).collect();
            match function {
                Function::One(function) => {
                    for at in mine {
                        outcomes[at] = Some(call_one(function, &batch[at]).await);
                    }
                }
                Function::Many { most, function } => {
                    for mine in mine.chunks(*most) {
                        let deliveries = mine.iter().map(|at| batch[*at].clone()).collect();
                        let answers = call_many(function, deliveries).await;
                        for (at, answer) in mine.iter().zip(answers) {
                            outcomes[*at] = Some(answer);
                        }
                    }
                }
            }
        }
        let unhandled = |delivery: &Delivery| self.unhandled(delivery.message().topic());
        let answers = outcomes.into_iter().zip(batch);
        answers.map(|(outcome, d)| outcome.unwrap_or_else(|| unhandled(d))).collect()
    }
}

/// The payload as an event; one of another shape is dead at once.
pub(crate) fn decode<E: DeserializeOwned>(delivery: &Delivery) -> Result<E, HandlerError> {
    delivery.message().json().map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        HandlerError::dead(format!("{error}: {}", cause.unwrap_or_default()))
    })
}

async fn call_one(function: &One, delivery: &Delivery) -> Outcome {
    let (function, delivery) = (Arc::clone(function), delivery.clone());
    let span = delivery.span().clone();
    // The call itself may panic too, before there is a future.
    let call = without_panic(async move { function(delivery).await }).instrument(span);
    match call.await {
        Ok(result) => outcome_of(result),
        Err(panic) => Outcome::Failed(format!("handler panicked: {panic}")),
    }
}

/// One outcome per delivery.
async fn call_many(function: &Many, deliveries: Vec<Delivery>) -> Vec<Outcome> {
    let (function, count) = (Arc::clone(function), deliveries.len());
    let missing = || Outcome::Failed("the handler gave no answer for this message".to_owned());
    let span = deliveries.first().map_or_else(Span::none, |first| first.span().clone());
    match without_panic(async move { function(deliveries).await }).instrument(span).await {
        Ok(answers) => {
            let answers = answers.into_iter().map(outcome_of);
            answers.chain(std::iter::repeat_with(missing)).take(count).collect()
        }
        Err(panic) => vec![Outcome::Failed(format!("handler panicked: {panic}")); count],
    }
}

pub(crate) fn outcome_of(result: HandlerResult) -> Outcome {
    match result {
        Ok(()) => Outcome::Done,
        Err(HandlerError(outcome)) => outcome,
    }
}

fn one<F, R>(handler: F) -> Function
where
    F: Fn(Delivery) -> R + Send + Sync + 'static,
    R: Future<Output = HandlerResult> + Send + 'static,
{
    Function::One(Arc::new(move |delivery| Box::pin(handler(delivery))))
}

impl Sink for Handlers {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.handle(batch))
    }

    fn max_batch(&self) -> usize {
        let most = |function: &Function| match function {
            Function::One(_) => 1,
            Function::Many { most, .. } => *most,
        };
        self.handlers.iter().map(|(_, function)| most(function)).max().unwrap_or(1)
    }

    /// Messages share a call when they go to the same batch handler; others are called one by one.
    fn call(&self, topic: &Topic) -> Call {
        let many = self.chosen(topic.as_str()).find_map(|(at, function)| match function {
            Function::One(_) => None,
            Function::Many { most, .. } => Some(Call { group: at + 1, most: *most }),
        });
        many.unwrap_or(Call { group: 0, most: 1 })
    }

    fn takes(&self, topic: &Topic) -> bool {
        self.unknown != UnknownTopic::Leave || self.chosen(topic.as_str()).next().is_some()
    }

    fn takes_every_topic(&self) -> bool {
        let for_all = || self.handlers.iter().any(|(topics, _)| *topics == Topics::All);
        self.unknown != UnknownTopic::Leave || for_all()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics: Vec<_> = self.handlers.iter().map(|(topics, _)| topics).collect();
        f.debug_struct("Handlers").field("topics", &topics).finish_non_exhaustive()
    }
}

/// Runs a future; a panic inside becomes its text.
pub(crate) async fn without_panic<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::message::Message;

    fn delivery(topic: &str) -> Delivery {
        let message = Message::builder(topic).payload("7").build().expect("legal");
        Delivery::detached(message, Duration::from_secs(1))
    }

    async fn outcome(handlers: &Handlers, topic: &str) -> Outcome {
        handlers.deliver(&[delivery(topic)]).await.remove(0)
    }

    #[tokio::test]
    async fn dsp_4_exact_topics_then_patterns_then_all_in_order() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let seen = Arc::clone(&seen);
            move |_| {
                seen.lock().expect("lock").push(name);
                async { Ok(()) }
            }
        };
        let handlers = Handlers::new()
            .all(note("all"))
            .pattern("order.*", note("pattern"))
            .topic("order.placed", note("one"))
            .topic("order.placed", note("two"))
            .topic("order", note("other"));
        assert_eq!(outcome(&handlers, "order.placed").await, Outcome::Done);
        assert_eq!(*seen.lock().expect("lock"), ["one", "two", "pattern", "all"]);
    }

    #[tokio::test]
    async fn dsp_5_each_answer_has_its_outcome() {
        let handlers = Handlers::new()
            .topic("retry", |_| async { Err(std::io::Error::other("disk"))? })
            .topic("dead", |_| async { Err(HandlerError::dead("never")) })
            .topic("later", |_| async {
                Err(HandlerError::not_now(Duration::from_secs(9), "busy"))
            })
            .topic("panic", |_| async { panic!("boom {}", 7) })
            .topic("early panic", |_| -> std::future::Ready<HandlerResult> { panic!("early") });
        assert_eq!(outcome(&handlers, "retry").await, Outcome::Failed("disk".to_owned()));
        assert_eq!(outcome(&handlers, "dead").await, Outcome::Permanent("never".to_owned()));
        assert!(matches!(outcome(&handlers, "later").await, Outcome::RetryAfter { .. }));
        let panicked = Outcome::Failed("handler panicked: boom 7".to_owned());
        assert_eq!(outcome(&handlers, "panic").await, panicked);
        let early = Outcome::Failed("handler panicked: early".to_owned());
        assert_eq!(outcome(&handlers, "early panic").await, early);
    }

    #[tokio::test]
    async fn dsp_6_a_topic_without_a_handler_is_retried_or_dead() {
        let handlers = Handlers::new();
        assert!(matches!(outcome(&handlers, "t").await, Outcome::Failed(_)));
        let handlers = handlers.unknown(UnknownTopic::Dead);
        let dead = Outcome::Permanent("no handler for topic t".to_owned());
        assert_eq!(outcome(&handlers, "t").await, dead);
    }

    #[tokio::test]
    async fn dsp_6_a_topic_can_be_left_to_others() {
        let some = Handlers::new().unknown(UnknownTopic::Leave).topic("mine", |_| async { Ok(()) });
        let topic = |name: &str| Topic::new(name).expect("legal");
        assert!(some.takes(&topic("mine")) && !some.takes(&topic("other")));
        assert!(!some.takes_every_topic());
        assert_eq!(outcome(&some, "other").await, Outcome::Unstarted);
        assert!(some.all(|_| async { Ok(()) }).takes_every_topic());
        assert!(Handlers::new().takes(&topic("other")) && Handlers::new().takes_every_topic());
    }

    #[tokio::test]
    async fn dsp_14_a_batch_handler_answers_per_message() {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&calls);
        let handlers = Handlers::new()
            .topic("m.bad", |_| async { Err(HandlerError::dead("first")) })
            .batch("m.*", 3, move |deliveries: Vec<Delivery>| {
                seen.lock().expect("lock").push(deliveries.len());
                async move {
                    let answer = |d: &Delivery| match d.message().topic().as_str() {
                        "m.later" => Err(HandlerError::retry("later")),
                        _ => Ok(()),
                    };
                    // It forgets the last one.
                    deliveries[1..].iter().map(answer).collect()
                }
            });
        let batch = ["m.a", "m.bad", "m.later", "m.b"].map(delivery);
        let outcomes = handlers.deliver(&batch).await;
        let missing = "the handler gave no answer for this message".to_owned();
        let expected = [
            Outcome::Failed("later".to_owned()),
            Outcome::Permanent("first".to_owned()),
            Outcome::Done,
            Outcome::Failed(missing),
        ];
        assert_eq!(outcomes, expected);
        assert_eq!(*calls.lock().expect("lock"), [3]);
        let call = |name: &str| handlers.call(&Topic::new(name).expect("legal"));
        assert_eq!((call("m.a").most, call("m.a").group), (3, call("m.b").group));
        assert_eq!((call("other").most, call("other").group), (1, 0));
    }

    #[tokio::test]
    async fn dsp_5_a_batch_handler_may_panic() {
        let handlers = Handlers::new().batch("t", 9, |_| async { panic!("all") });
        let failed = Outcome::Failed("handler panicked: all".to_owned());
        let batch = [delivery("t"), delivery("t")];
        assert_eq!(handlers.deliver(&batch).await, [failed.clone(), failed]);
    }
}
