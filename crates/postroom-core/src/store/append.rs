//! Messages on their way into a store.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::ids::{LeaseToken, MessageId, OwnerToken, WorkId};
use crate::message::Message;

/// A message on its way into the store.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The message.
    pub message: Message,
    /// How its row is born.
    pub birth: Birth,
}

/// How a row is born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// For whoever claims it.
    Ready,
    /// Leased to the process that writes it. A message with an ordering key, a due time in the
    /// future or a paused topic is born ready all the same.
    Leased {
        /// The dispatcher of this process.
        owner: OwnerToken,
        /// A fresh token.
        token: LeaseToken,
        /// From the time of writing.
        lease: Duration,
    },
}

/// What became of one [`Entry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Written.
    New {
        /// Its place in the queue.
        work: WorkId,
        /// Whether it was born leased.
        leased: bool,
    },
    /// Not written: there was one before.
    Existed {
        /// The id of that one.
        id: MessageId,
        /// Whether both say the same, as far as that is known: what came through
        /// [`admit`](super::TransactionalStore::admit), and keys of earlier versions, say nothing.
        same_content: bool,
    },
}

/// The error of [`append`](super::TransactionalStore::append) for an id with other content.
#[must_use]
pub fn id_taken(id: MessageId) -> Error {
    let problem =
        format!("message id {id} belongs to a message with other content; use a fresh id");
    Error::new(ErrorKind::IdTaken, problem)
}
