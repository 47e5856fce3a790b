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

use crate::event::Event;
use crate::lifecycle::Outcome;
use crate::sink::{Delivery, Sink};
use crate::store::BoxFuture;

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

type Function = Arc<dyn Fn(Delivery) -> BoxFuture<'static, HandlerResult> + Send + Sync>;

/// What to do with a message that no handler takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownTopic {
    /// Try again by the retry policy: perhaps a newer version of this process knows it.
    #[default]
    Retry,
    /// A dead letter at once.
    Dead,
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
    exact: Vec<(String, Function)>,
    patterns: Vec<(String, Function)>,
    all: Vec<Function>,
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
                let event = delivery.message().json::<E>().map_err(|error| {
                    let cause = std::error::Error::source(&error).map(ToString::to_string);
                    HandlerError::dead(format!("{error}: {}", cause.unwrap_or_default()))
                })?;
                handler(event, delivery).await
            }
        })
    }

    /// Calls the function with messages of exactly this topic.
    #[must_use]
    pub fn topic<F, R>(mut self, topic: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.exact.push((topic.into(), boxed(handler)));
        self
    }

    /// Calls the function with messages whose topic fits: `*` stands for any characters.
    #[must_use]
    pub fn pattern<F, R>(mut self, pattern: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.patterns.push((pattern.into(), boxed(handler)));
        self
    }

    /// Calls the function with all messages.
    #[must_use]
    pub fn all<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.all.push(boxed(handler));
        self
    }

    /// What to do with a message that no handler takes. Default: retry.
    #[must_use]
    pub fn unknown(mut self, unknown: UnknownTopic) -> Self {
        self.unknown = unknown;
        self
    }

    fn chosen(&self, topic: &str) -> Vec<Function> {
        let exact = self.exact.iter().filter(|(name, _)| name == topic);
        let patterns = self.patterns.iter().filter(|(pattern, _)| matches(pattern, topic));
        let named = exact.chain(patterns).map(|(_, function)| function);
        named.chain(&self.all).map(Arc::clone).collect()
    }

    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let topic = delivery.message().topic();
        let chosen = self.chosen(topic.as_str());
        if chosen.is_empty() {
            let error = format!("no handler for topic {topic}");
            return match self.unknown {
                UnknownTopic::Retry => Outcome::Failed(error),
                UnknownTopic::Dead => Outcome::Permanent(error),
            };
        }
        for function in chosen {
            // The call itself may panic too, before there is a future.
            let delivery = delivery.clone();
            let result = without_panic(async move { function(delivery).await }).await;
            match result {
                Ok(Ok(())) => {}
                Ok(Err(HandlerError(outcome))) => return outcome,
                Err(panic) => return Outcome::Failed(format!("handler panicked: {panic}")),
            }
        }
        Outcome::Done
    }
}

fn boxed<F, R>(handler: F) -> Function
where
    F: Fn(Delivery) -> R + Send + Sync + 'static,
    R: Future<Output = HandlerResult> + Send + 'static,
{
    Arc::new(move |delivery| Box::pin(handler(delivery)))
}

impl Sink for Handlers {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(batch.len());
            for delivery in batch {
                outcomes.push(self.handle(delivery).await);
            }
            outcomes
        })
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics: Vec<_> =
            self.exact.iter().chain(&self.patterns).map(|(name, _)| name).collect();
        f.debug_struct("Handlers").field("topics", &topics).field("all", &self.all.len()).finish()
    }
}

/// Whether the topic fits the pattern; `*` stands for any characters, also none.
fn matches(pattern: &str, topic: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == topic };
    let Some(rest) = topic.strip_prefix(head) else { return false };
    let mut cuts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    cuts.any(|at| matches(tail, &rest[at..]))
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

    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::message::Message;

    fn delivery(topic: &str) -> Delivery {
        let message = Message::builder(topic).payload("7").build().expect("legal");
        let deadline = Instant::now() + Duration::from_secs(1);
        Delivery::new(message, 1, deadline, CancellationToken::new())
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

    #[test]
    fn dsp_4_patterns() {
        for (pattern, topic) in
            [("order.*", "order.a.b"), ("*", ""), ("*.x", "a.x"), ("a*b*c", "abbc")]
        {
            assert!(matches(pattern, topic), "{pattern} {topic}");
        }
        for (pattern, topic) in [("order.*", "order"), ("*.x", "a.xy"), ("a*b", "ac"), ("A*", "a")]
        {
            assert!(!matches(pattern, topic), "{pattern} {topic}");
        }
    }
}
