//! What people do to messages and queues: replay, discard, pause.

use std::collections::HashSet;

use crate::clock::Timestamp;
use crate::ids::MessageId;
use crate::lifecycle::State;
use crate::text::Topic;

/// What became of the messages of a replay or discard, each once and in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Changed {
    /// It was done to these.
    pub applied: Vec<MessageId>,
    /// It was not done to these, and why.
    pub refused: Vec<(MessageId, Refusal)>,
}

impl Changed {
    /// From what each message came to; no refusal means that it was done.
    pub fn each(ids: &[MessageId], refusal: impl Fn(MessageId) -> Option<Refusal>) -> Self {
        let mut changed = Self::default();
        let mut seen = HashSet::with_capacity(ids.len());
        for id in ids.iter().copied().filter(|id| seen.insert(*id)) {
            match refusal(id) {
                None => changed.applied.push(id),
                Some(why) => changed.refused.push((id, why)),
            }
        }
        changed
    }
}

/// Why a message was neither replayed nor discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such message.
    Missing,
    /// It is still to be delivered: there is nothing to replay.
    NotDead,
    /// Somebody holds it, or did and may still settle it.
    Held,
    /// It was delivered, and done is never left.
    Done,
    /// Its row can not be decoded, so it would die again at once.
    Undecodable,
}

impl Refusal {
    /// In words, for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "no such message",
            Self::NotDead => "not dead",
            Self::Held => "being handled",
            Self::Done => "done",
            Self::Undecodable => "undecodable",
        }
    }

    /// Why a message in this state is not replayed, if it is not.
    #[must_use]
    pub fn of_replay(state: Option<State>, decodes: bool) -> Option<Self> {
        match state {
            None => Some(Self::Missing),
            Some(State::Ready) => Some(Self::NotDead),
            Some(State::Leased) => Some(Self::Held),
            Some(State::Done) => Some(Self::Done),
            Some(State::Dead) => (!decodes).then_some(Self::Undecodable),
        }
    }

    /// Why a message was not discarded that is in this state a moment later.
    #[must_use]
    pub fn of_discard(state: Option<State>) -> Self {
        match state {
            None => Self::Missing,
            Some(State::Done) => Self::Done,
            // What is free or dead by now was held then.
            Some(State::Ready | State::Leased | State::Dead) => Self::Held,
        }
    }
}

/// A request to pause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Only this topic; without one the whole queue.
    pub topic: Option<Topic>,
    /// Who wants it.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// A pause that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRecord {
    /// The topic as stored; none is the whole queue.
    pub topic: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Who wanted it.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// What is paused, as the engine needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paused {
    /// The whole queue is.
    pub all: bool,
    /// The [hashes](crate::Message::topic_hash) of topics that are.
    pub topics: Vec<i64>,
}

impl Paused {
    /// From the topic hashes of the pauses, none for the whole queue.
    #[must_use]
    pub fn of(pauses: impl IntoIterator<Item = Option<i64>>) -> Self {
        let mut paused = Self::default();
        for topic in pauses {
            paused.all |= topic.is_none();
            paused.topics.extend(topic);
        }
        paused
    }

    /// Whether messages of this topic are.
    #[must_use]
    pub fn covers(&self, topic_hash: i64) -> bool {
        self.all || self.topics.contains(&topic_hash)
    }
}
