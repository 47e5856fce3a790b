//! What people do to messages, and which messages that can be done to: the same rules wherever
//! somebody does it.

use super::{AdminStore, Changed, List, Record, Refusal, Status};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::MessageId;
use crate::lifecycle::{DeadReason, State};

/// What is done to messages by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    /// Dead ones are tried again.
    Replay,
    /// They are not tried any more.
    Discard,
}

impl Act {
    /// In a word, for programs and for the audit log.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Discard => "discard",
        }
    }

    /// What it made of a message, in a word.
    #[must_use]
    pub fn done(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::Discard => "discarded",
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// What the store says.
    pub async fn apply(self, store: &dyn AdminStore, ids: &[MessageId]) -> Result<Changed> {
        match self {
            Self::Replay => store.replay(ids).await,
            Self::Discard => store.discard(ids).await,
        }
    }

    /// Why a message in this state would be refused, if it would.
    #[must_use]
    pub fn refusal(self, record: Option<&Record>) -> Option<Refusal> {
        let state = record.map(|record| record.state);
        let decodes = record.is_some_and(|record| record.message.is_some());
        match (self, state) {
            (Self::Replay, state) => Refusal::of_replay(state, decodes),
            (Self::Discard, Some(State::Ready | State::Dead)) => None,
            (Self::Discard, state) => Some(Refusal::of_discard(state)),
        }
    }

    /// The status that a filter means which asks for this one: only dead messages are replayed, and
    /// what is to be discarded has to be named.
    ///
    /// # Errors
    /// `Invalid` when it can not be done to messages of that status.
    pub fn status(self, asked: Option<Status>) -> Result<Status> {
        match (self, asked) {
            (Self::Replay, None | Some(Status::Dead)) => Ok(Status::Dead),
            (Self::Replay, Some(_)) => {
                Err(Error::new(ErrorKind::Invalid, "only dead messages can be replayed"))
            }
            (Self::Discard, Some(status @ (Status::Dead | Status::Failed | Status::Pending))) => {
                Ok(status)
            }
            (Self::Discard, _) => Err(Error::new(
                ErrorKind::Invalid,
                "a filter of discard needs the status dead, failed or pending",
            )),
        }
    }

    /// Whether a message is meant that the filter found. What somebody discarded does not come back
    /// by the way, nor is it discarded twice, unless the filter names a reason.
    #[must_use]
    pub fn means(self, filter: &List, record: &Record) -> bool {
        filter.reason.is_some() || record.reason != Some(DeadReason::Discarded)
    }
}
