//! Topics that are left to other processes, because the sink here does not take them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::message::Message;

/// For so long claims leave such a topic out. Then one batch is claimed and given back again, which
/// keeps the list to topics that there are.
pub(super) const LEFT_FOR: Duration = Duration::from_secs(60);

// Messages of further topics are put off instead.
const MOST_TOPICS: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Left(Mutex<BTreeMap<i64, Instant>>);

impl Left {
    /// Takes note of the topic of a message; answers whether that is new, and nothing when there
    /// are too many.
    pub(super) fn note(&self, message: &Message) -> Option<bool> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        left.retain(|_, until| *until > now);
        let room = left.len() < MOST_TOPICS;
        room.then(|| left.insert(message.topic_hash(), now + LEFT_FOR).is_none())
    }

    /// The topics that claims leave out.
    pub(super) fn topics(&self) -> Vec<i64> {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        left.iter().filter(|(_, until)| **until > now).map(|(topic, _)| *topic).collect()
    }
}
