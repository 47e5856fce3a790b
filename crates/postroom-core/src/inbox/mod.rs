//! The receiving half: each message takes effect once.
//!
//! A message is stored once per source, message id and consumer, and then the engine of the outbox
//! claims it, retries it, keeps its order and makes it dead. Its handler gets the transaction that
//! also marks it done, so that its effect and that mark commit together or not at all.

mod forward;
mod handlers;
mod transaction;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use forward::ToInbox;
pub use handlers::{InboxHandlerResult, InboxHandlers};
pub use transaction::InboxTransaction;

use crate::dispatcher::Dispatcher;
use crate::error::{Error, ErrorKind, Result};
use crate::event::IntoMessage;
use crate::ids::{JoinId, MessageId};
use crate::message::Message;
use crate::origin::Origin;
use crate::outbox::{Outbox, Published};
use crate::store::{Store, TransactionalStore};
use crate::text::{Consumer, Source};

/// Receives messages for one consumer. Cheap to clone.
///
/// It lies in the database of an [`Outbox`], because what its handlers publish commits with what
/// they change. There are two ways to use it:
/// - [`receive`](Self::receive) stores a message, so that the broker can be told at once that it
///   arrived, and [handlers](Self::handlers) take it from there;
/// - [`once`](Self::once) only tells whether a message is new, inside a transaction of your own.
///
/// Different consumers are independent of each other: each gets its own copy of a message that both
/// receive. All consumers of one inbox share its queue, so every process that runs a dispatcher on
/// it should have handlers for all of them; consumers that run in different processes need a table
/// prefix each.
///
/// ```
/// use postroom_core::{Inbox, Message, Outbox, Received, Result, store::TransactionalStore};
///
/// async fn arrived<S: TransactionalStore>(outbox: &Outbox<S>) -> Result<()> {
///     let billing = Inbox::new(outbox, "billing")?;
///     let message = || Message::builder("order.placed").payload(r#"{"order":7}"#);
///     let first = billing.receive("shop", "order-7", message()).await?;
///     assert!(matches!(first, Received::New(_)));
///     let again = billing.receive("shop", "order-7", message()).await?;
///     assert!(matches!(again, Received::Duplicate(_)));
///     Ok(())
/// }
/// ```
pub struct Inbox<S> {
    outbox: Outbox<S>,
    /// The inbox of the same database; messages come in as they do in an outbox.
    arrivals: Outbox<S>,
    consumer: Consumer,
}

/// Settings of an [`Inbox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxConfig {
    /// How long after a message was handled its sender may send it again: the longest time that a
    /// broker keeps messages, say, or that a sender retries. The inbox knows messages by their keys
    /// for as long as [`Purge::keys`](crate::store::Purge) says, and refuses to forget them
    /// earlier than this. Default 7 days.
    pub redelivery_horizon: Duration,
}

impl Default for InboxConfig {
    fn default() -> Self {
        Self { redelivery_horizon: Duration::from_hours(7 * 24) }
    }
}

/// What became of a received message. In each case the sender may be told that it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Received {
    /// It is stored, under this id.
    New(MessageId),
    /// It was stored before, under this id; nothing was written.
    Duplicate(MessageId),
    /// The sender has used the same name for other content before, which is stored under this id.
    /// Nothing was written and nothing of this one will happen: somebody should look at the sender.
    Conflict(MessageId),
}

/// The answer of [`Inbox::once`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a duplicate must have no effect"]
pub enum Once {
    /// It is new: do what it asks for, in the same transaction.
    First,
    /// It had its effect before: do nothing.
    Duplicate,
}

impl<S: TransactionalStore> Inbox<S> {
    /// An inbox in the database of this outbox, for this consumer.
    ///
    /// # Errors
    /// `Invalid` when the name of the consumer is empty, too long or has control characters.
    pub fn new(outbox: &Outbox<S>, consumer: impl Into<String>) -> Result<Self> {
        let arrivals = outbox.on(Arc::new(outbox.store().inbox()));
        let inbox = Self { outbox: outbox.clone(), arrivals, consumer: Consumer::new(consumer)? };
        Ok(inbox.configure(InboxConfig::default()))
    }

    /// The same inbox with other settings. The longest redelivery horizon that was ever set for a
    /// store counts.
    #[must_use]
    pub fn configure(self, config: InboxConfig) -> Self {
        self.store().local().expect_redelivery(config.redelivery_horizon);
        self
    }

    /// The store of the inbox, for a dispatcher, a work queue or a look at its messages.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        self.arrivals.store()
    }

    /// The outbox of the same database.
    #[must_use]
    pub fn outbox(&self) -> &Outbox<S> {
        &self.outbox
    }

    /// For whom it receives.
    #[must_use]
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// Stores a message, unless it is stored already. `message_id` is the sender's name for it,
    /// unique within the source. When this returns, the message is safe.
    ///
    /// # Errors
    /// `Invalid` or `Codec` before anything is written; else as
    /// [`OutboxTransaction::commit`](crate::OutboxTransaction::commit). After any error the sender
    /// should send it again, which is safe in every case.
    pub async fn receive(
        &self,
        source: impl Into<String>,
        message_id: impl Into<String>,
        message: impl IntoMessage,
    ) -> Result<Received> {
        let message = self.arrival(Source::new(source)?, message_id, message)?;
        self.arrivals.publish(message).await.map(received)
    }

    /// Stores many messages of one source in one transaction; one answer for each.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); then none of them was stored.
    pub async fn receive_all<I, M>(
        &self,
        source: impl Into<String>,
        messages: impl IntoIterator<Item = (I, M)>,
    ) -> Result<Vec<Received>>
    where
        I: Into<String>,
        M: IntoMessage,
    {
        let source = Source::new(source)?;
        let arrival = |(id, message): (I, M)| self.arrival(source.clone(), id, message);
        let messages = messages.into_iter().map(arrival).collect::<Result<Vec<_>>>()?;
        let published = self.arrivals.publish_all(messages).await?;
        Ok(published.into_iter().map(received).collect())
    }

    /// Tells whether a message is new, and takes note of it, inside your transaction: for consumers
    /// that do their work right where the message arrives. The note commits with your work; after a
    /// rollback the message is new again. Of many copies at once one is the first, and the others
    /// wait for its end.
    ///
    /// ```
    /// # use postroom_core::{Inbox, Once, Result, store::TransactionalStore};
    /// async fn arrived<S: TransactionalStore>(inbox: &Inbox<S>) -> Result<()> {
    ///     let mut tx = inbox.outbox().begin().await?;
    ///     if inbox.once(tx.conn(), "shop", "order-7").await? == Once::First {
    ///         // your statements, on tx.conn()
    ///     }
    ///     tx.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// `Invalid` before anything is written, `NotInTransaction` when the connection has no open
    /// transaction; a transient `Contention` when a rival committed that your snapshot can not see.
    pub async fn once(
        &self,
        conn: &mut S::Conn,
        source: impl Into<String>,
        message_id: impl Into<String>,
    ) -> Result<Once> {
        let key = Origin::new(source, message_id, self.consumer.as_str())?.key();
        let store = self.store();
        store.require_transaction(conn).await?;
        Ok(if store.admit(conn, key).await? { Once::First } else { Once::Duplicate })
    }

    /// Makes messages of this inbox members of a [join](crate::Join), which ends when they have
    /// been handled; its follow-up goes into the outbox.
    ///
    /// # Errors
    /// As [`Outbox::attach`].
    pub async fn attach(&self, join: JoinId, messages: &[MessageId]) -> Result<()> {
        self.arrivals.attach(join, messages).await
    }

    /// Handlers for what this inbox receives: none yet.
    #[must_use]
    pub fn handlers(&self) -> InboxHandlers<S> {
        InboxHandlers::new(self)
    }

    /// A dispatcher that calls these handlers.
    #[must_use]
    pub fn dispatcher(&self, handlers: InboxHandlers<S>) -> Dispatcher {
        Dispatcher::new(Arc::clone(self.store()) as Arc<dyn Store>, handlers)
    }

    /// Delivers the messages of an outbox elsewhere right into this inbox, with no broker between
    /// them: a [`Sink`](crate::Sink) for that outbox's dispatcher.
    ///
    /// # Errors
    /// `Invalid` when the name of the source is empty, too long or has a NUL.
    pub fn sink(&self, source: impl Into<String>) -> Result<ToInbox<S>> {
        Ok(ToInbox::new(self.clone(), Source::new(source)?))
    }

    /// The message as it will lie in the inbox.
    fn arrival(
        &self,
        source: Source,
        message_id: impl Into<String>,
        message: impl IntoMessage,
    ) -> Result<Message> {
        let origin = Origin::named(source, message_id, self.consumer.clone())?;
        self.arrivals.check(message).map(|message| message.received(origin))
    }
}

fn received(published: Published) -> Received {
    let Published { id, already_existed, same_content, .. } = published;
    match (already_existed, same_content) {
        (false, _) => Received::New(id),
        (true, true) => Received::Duplicate(id),
        (true, false) => Received::Conflict(id),
    }
}

/// What to say of a message that was refused for its content.
fn conflict(id: MessageId) -> Error {
    Error::new(ErrorKind::IdTaken, format!("the inbox knows this message with other content: {id}"))
}

impl<S> Clone for Inbox<S> {
    fn clone(&self) -> Self {
        Self {
            outbox: self.outbox.clone(),
            arrivals: self.arrivals.clone(),
            consumer: self.consumer.clone(),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Inbox<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("consumer", &self.consumer).finish_non_exhaustive()
    }
}
