//! Typed events: a Rust type that knows its topic and what it is about.

use serde::Serialize;

use crate::builder::MessageBuilder;
use crate::error::Result;
use crate::idempotency::IdempotencyKey;
use crate::message::Message;

/// A type that can be published. `#[derive(Event)]` writes this for you.
///
/// ```
/// use postroom_core::{Event, IntoMessage};
/// use serde::Serialize;
///
/// #[derive(Serialize)]
/// struct OrderPlaced { order_id: u64 }
///
/// impl Event for OrderPlaced {
///     const TOPIC: &'static str = "order.placed";
///
///     fn aggregate(&self) -> Option<(String, String)> {
///         Some(("order".into(), self.order_id.to_string()))
///     }
/// }
///
/// let message = (&OrderPlaced { order_id: 7 }).into_message()?;
/// assert_eq!(message.ordering_key().map(|key| key.as_str()), Some("order/7"));
/// # Ok::<(), postroom_core::Error>(())
/// ```
pub trait Event: Serialize {
    /// The topic of every event of this type.
    const TOPIC: &'static str;

    /// The thing that it happened to: its kind and its id.
    fn aggregate(&self) -> Option<(String, String)> {
        None
    }

    /// The key within which it is ordered. Default: its aggregate, if it has one; return `None` to
    /// opt out of order.
    fn ordering_key(&self) -> Option<String> {
        self.aggregate().map(|(kind, id)| format!("{kind}/{id}"))
    }

    /// Whose event it is.
    fn tenant_id(&self) -> Option<String> {
        None
    }

    /// The key under which a second publish is a duplicate.
    fn idempotency_key(&self) -> Option<IdempotencyKey> {
        None
    }

    /// A message with all of this; finish it with [`MessageBuilder::build`].
    fn to_message(&self) -> MessageBuilder {
        let mut builder = Message::builder(Self::TOPIC).json(self);
        if let Some((kind, id)) = self.aggregate() {
            builder = builder.aggregate(kind, id);
        }
        if let Some(key) = self.ordering_key() {
            builder = builder.ordering_key(key);
        }
        if let Some(tenant) = self.tenant_id() {
            builder = builder.tenant_id(tenant);
        }
        if let Some(key) = self.idempotency_key() {
            builder = builder.idempotency_key(key);
        }
        builder
    }
}

/// What can be published: a typed event by reference, a [`Message`], or a [`MessageBuilder`].
pub trait IntoMessage {
    /// Turns it into a message.
    ///
    /// # Errors
    /// `Invalid` when a limit is broken, `Codec` when the payload does not serialise.
    fn into_message(self) -> Result<Message>;
}

impl<E: Event> IntoMessage for &E {
    fn into_message(self) -> Result<Message> {
        self.to_message().build()
    }
}

impl IntoMessage for Message {
    fn into_message(self) -> Result<Message> {
        Ok(self)
    }
}

impl IntoMessage for &Message {
    fn into_message(self) -> Result<Message> {
        Ok(self.clone())
    }
}

impl IntoMessage for MessageBuilder {
    fn into_message(self) -> Result<Message> {
        self.build()
    }
}
