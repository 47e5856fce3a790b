//! Handlers that get the transaction in which their message is marked done.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tracing::Instrument as _;

use super::{Inbox, InboxTransaction};
use crate::error::Error;
use crate::event::Event;
use crate::handler::{HandlerError, decode, outcome_of, without_panic};
use crate::lifecycle::Outcome;
use crate::outbox::Outbox;
use crate::pattern::{ByTopic, Topics};
use crate::sink::{Delivery, Sink};
use crate::store::{BoxFuture, TransactionalStore};
use crate::text::Consumer;

/// What an inbox handler returns: the transaction that it got, or why there was no effect.
pub type InboxHandlerResult<S> = Result<InboxTransaction<S>, HandlerError>;

type Effect<S> = Arc<
    dyn Fn(Delivery, InboxTransaction<S>) -> BoxFuture<'static, InboxHandlerResult<S>>
        + Send
        + Sync,
>;

/// Functions by topic, each called with a message and the [transaction](InboxTransaction) in which
/// it takes effect; a [`Sink`] for the dispatcher of an inbox.
///
/// Exact topics come first, then patterns, then those for all, in the order of registration.
/// Several may take one message: they share its transaction, and the first failure rolls it back.
///
/// ```
/// use postroom_core::{Delivery, Inbox, InboxHandlerResult, InboxHandlers, InboxTransaction};
/// use postroom_core::{Message, store::TransactionalStore};
///
/// async fn charge<S: TransactionalStore>(
///     delivery: Delivery,
///     mut tx: InboxTransaction<S>,
/// ) -> InboxHandlerResult<S> {
///     let order: u64 = delivery.message().json()?;
///     // your statements, on tx.conn()
///     tx.publish(Message::builder("invoice.created").json(&order))?;
///     Ok(tx)
/// }
///
/// fn handlers<S: TransactionalStore>(billing: &Inbox<S>) -> InboxHandlers<S> {
///     billing.handlers().topic("order.placed", charge)
/// }
/// ```
///
/// The transaction is open while the handler runs, and on SQLite nobody else writes meanwhile. So
/// keep handlers short; what takes long, such as a call of another service, belongs into the
/// handler of a message that is published here.
pub struct InboxHandlers<S: TransactionalStore> {
    outbox: Outbox<S>,
    store: Arc<S>,
    consumers: Vec<(Consumer, ByTopic<Effect<S>>)>,
    unknown_is_dead: bool,
}

// A database that gives no transaction is not the message's fault.
const NO_TRANSACTION: Duration = Duration::from_secs(1);

impl<S: TransactionalStore> InboxHandlers<S> {
    pub(super) fn new(inbox: &Inbox<S>) -> Self {
        Self {
            outbox: inbox.outbox().clone(),
            store: Arc::clone(inbox.store()),
            consumers: vec![(inbox.consumer().clone(), ByTopic::default())],
            unknown_is_dead: false,
        }
    }

    /// Calls the function with every event of its type. A payload that does not decode is dead at
    /// once.
    #[must_use]
    pub fn on<E, F, R>(self, handler: F) -> Self
    where
        E: Event + DeserializeOwned + Send + 'static,
        F: Fn(E, Delivery, InboxTransaction<S>) -> R + Send + Sync + 'static,
        R: Future<Output = InboxHandlerResult<S>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.topic(E::TOPIC, move |delivery: Delivery, tx| {
            let handler = Arc::clone(&handler);
            async move { handler(decode(&delivery)?, delivery, tx).await }
        })
    }

    /// Calls the function with messages of exactly this topic.
    #[must_use]
    pub fn topic<F, R>(self, topic: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Delivery, InboxTransaction<S>) -> R + Send + Sync + 'static,
        R: Future<Output = InboxHandlerResult<S>> + Send + 'static,
    {
        self.with(Topics::Exact(topic.into()), handler)
    }

    /// Calls the function with messages whose topic fits: `*` stands for any characters.
    #[must_use]
    pub fn pattern<F, R>(self, pattern: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Delivery, InboxTransaction<S>) -> R + Send + Sync + 'static,
        R: Future<Output = InboxHandlerResult<S>> + Send + 'static,
    {
        self.with(Topics::Pattern(pattern.into()), handler)
    }

    /// Calls the function with all messages.
    #[must_use]
    pub fn all<F, R>(self, handler: F) -> Self
    where
        F: Fn(Delivery, InboxTransaction<S>) -> R + Send + Sync + 'static,
        R: Future<Output = InboxHandlerResult<S>> + Send + 'static,
    {
        self.with(Topics::All, handler)
    }

    /// These, and those of other consumers of the same inbox.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.consumers.extend(others.consumers);
        self
    }

    /// A message that no handler takes is dead at once. Else it is tried again by the retry policy:
    /// perhaps a newer version of this process knows it.
    #[must_use]
    pub fn unknown_is_dead(mut self) -> Self {
        self.unknown_is_dead = true;
        self
    }

    fn with<F, R>(mut self, topics: Topics, handler: F) -> Self
    where
        F: Fn(Delivery, InboxTransaction<S>) -> R + Send + Sync + 'static,
        R: Future<Output = InboxHandlerResult<S>> + Send + 'static,
    {
        let effect: Effect<S> = Arc::new(move |delivery, tx| Box::pin(handler(delivery, tx)));
        // The first is the consumer that these were made for; `and` adds behind it.
        if let Some((_, effects)) = self.consumers.first_mut() {
            effects.add(topics, effect);
        }
        self
    }

    /// What to call with this message, in order.
    fn chosen(&self, delivery: &Delivery) -> Vec<&Effect<S>> {
        let message = delivery.message();
        let Some(origin) = message.origin() else { return Vec::new() };
        let mine = self.consumers.iter().filter(|(consumer, _)| *consumer == origin.consumer);
        mine.flat_map(|(_, effects)| effects.chosen(message.topic().as_str())).collect()
    }

    fn unhandled(&self, delivery: &Delivery) -> Outcome {
        let message = delivery.message();
        let consumer = message.origin().map_or("nobody", |origin| origin.consumer.as_str());
        let error = format!("no handler for topic {} of consumer {consumer}", message.topic());
        match self.unknown_is_dead {
            true => Outcome::Permanent(error),
            false => Outcome::Failed(error),
        }
    }

    async fn handle(&self, delivery: &Delivery) -> Outcome {
        let chosen = self.chosen(delivery);
        if chosen.is_empty() {
            return self.unhandled(delivery);
        }
        let right = delivery.right();
        let mut tx = match self.outbox.begin().await {
            Ok(tx) => InboxTransaction::new(tx, right),
            Err(error) => return no_transaction(&error),
        };
        for effect in chosen {
            let (effect, delivery) = (Arc::clone(effect), delivery.clone());
            let span = delivery.span().clone();
            // The call itself may panic too, before there is a future.
            let call = without_panic(async move { effect(delivery, tx).await }).instrument(span);
            tx = match call.await {
                Ok(Ok(given_back)) if given_back.belongs_to(right) => given_back,
                Ok(Ok(_)) => {
                    let error = "the handler gave back the transaction of another message";
                    return Outcome::Permanent(error.to_owned());
                }
                Ok(Err(error)) => return outcome_of(Err(error)),
                Err(panic) => return Outcome::Failed(format!("handler panicked: {panic}")),
            };
        }
        match tx.finish(&self.store).await {
            Ok(true) => {
                delivery.set_settled();
                Outcome::Done
            }
            // What the fence refuses here it refuses again: that is how the loss gets known.
            Ok(false) => Outcome::Unstarted,
            // It may have been committed all the same. Then there is nothing left to try again.
            Err(error) => outcome_of(Err(error.into())),
        }
    }
}

fn no_transaction(error: &Error) -> Outcome {
    match error.is_transient() {
        true => outcome_of(Err(HandlerError::not_now(NO_TRANSACTION, error))),
        false => outcome_of(Err(HandlerError::retry(error))),
    }
}

impl<S: TransactionalStore> Sink for InboxHandlers<S> {
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

impl<S: TransactionalStore> fmt::Debug for InboxHandlers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consumers: Vec<_> = self.consumers.iter().map(|(consumer, _)| consumer).collect();
        f.debug_struct("InboxHandlers").field("consumers", &consumers).finish_non_exhaustive()
    }
}
