//! What people look at: dispatchers, topics, failures, keys that are stopped, and who did what.

use std::time::Duration;

use serde::Serialize;

use crate::clock::Timestamp;
use crate::ids::{MessageId, OwnerToken};
use crate::lifecycle::DeadReason;

/// What a dispatcher says of itself, again and again while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Who it is.
    pub owner: OwnerToken,
    /// Where it runs, for people: a host and a process, or what it was told.
    pub name: String,
    /// Its version.
    pub version: String,
    /// For how long it runs already.
    pub running_for: Duration,
    /// Whether it finishes what it has and takes no more.
    pub draining: bool,
    /// After what time without a further one it counts as gone.
    pub valid_for: Duration,
}

impl Heartbeat {
    /// The longest name and version that are kept, in bytes.
    pub const MOST_TEXT: usize = 255;

    /// The same as stores keep it: longer texts are cut between two characters.
    #[must_use]
    pub fn cut(&self) -> Self {
        let short = |text: &str| cut(text, Self::MOST_TEXT);
        Self { name: short(&self.name), version: short(&self.version), ..self.clone() }
    }
}

/// A dispatcher that was heard of lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Who it is.
    pub owner: OwnerToken,
    /// Where it runs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// Whether it is still within the time that its last sign of life is good for.
    pub is_live: bool,
    /// Whether it finishes what it has and takes no more.
    pub draining: bool,
    /// How many messages it holds, but those whose lease ran out.
    pub leases: u64,
    /// How many of the slots of ordered messages it owns, counted like its messages.
    pub slots: u32,
}

/// The messages of one topic that are not delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopicStats {
    /// The topic.
    pub topic: String,
    /// Ready, waiting or held.
    pub live: u64,
    /// Of those: had a bad attempt, and nobody holds them.
    pub failed: u64,
    /// Dead letters, but discarded ones.
    pub dead: u64,
}

/// A message that did not go well, with its last error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// Which.
    pub id: MessageId,
    /// Its topic as stored.
    pub topic: String,
    /// Why it is dead; nothing when it will be tried again.
    pub reason: Option<DeadReason>,
    /// Deliveries that ended badly.
    pub attempts: u32,
    /// The error of its last bad attempt.
    pub error: Option<String>,
    /// When that was, or when it was settled.
    pub at: Timestamp,
}

/// Why nothing of an ordering key is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Its first message waits for its next try.
    Retry {
        /// When that is.
        until: Timestamp,
    },
    /// A dead message stops it until it is replayed or discarded.
    Halted,
}

/// An ordering key that stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedKey {
    /// The key as stored.
    pub ordering_key: Option<String>,
    /// Its tenant.
    pub tenant_id: Option<String>,
    /// The message that stops it.
    pub by: MessageId,
    /// Its topic.
    pub topic: String,
    /// Why.
    pub block: Block,
    /// How many messages lie behind it, counted up to [`BlockedKey::MOST_BEHIND`].
    pub behind: u32,
}

impl BlockedKey {
    /// Further messages behind a key are not counted.
    pub const MOST_BEHIND: u32 = 1_000;
    /// So many keys are looked at.
    pub const MOST_KEYS: u32 = 10_000;
}

/// Something that a person did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Who: the name of a token, or of whoever used the command line. At most
    /// [`AuditEntry::MOST_NAME`] bytes, more is cut.
    pub actor: String,
    /// What: a short word such as `replay`. Cut like the actor.
    pub action: String,
    /// To what: ids, a filter, a topic. At most [`AuditEntry::MOST_TEXT`] bytes, more is cut.
    pub target: String,
    /// What came of it, in words. Cut like the target.
    pub outcome: String,
    /// How many messages were changed.
    pub changed: u64,
}

impl AuditEntry {
    /// The longest target and outcome that are kept, in bytes.
    pub const MOST_TEXT: usize = 2_000;
    /// The longest actor and action that are kept, in bytes.
    pub const MOST_NAME: usize = 255;

    /// The same as stores keep it: longer texts are cut between two characters.
    #[must_use]
    pub fn cut(&self) -> Self {
        Self {
            actor: cut(&self.actor, Self::MOST_NAME),
            action: cut(&self.action, Self::MOST_NAME),
            target: cut(&self.target, Self::MOST_TEXT),
            outcome: cut(&self.outcome, Self::MOST_TEXT),
            changed: self.changed,
        }
    }
}

/// Without NUL, which PostgreSQL can not store.
fn cut(text: &str, most: usize) -> String {
    let mut text = text.replace('\0', "");
    text.truncate(text.floor_char_boundary(most));
    text
}

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its number; later ones are higher.
    pub number: i64,
    /// When it was written.
    pub at: Timestamp,
    /// What it says.
    pub entry: AuditEntry,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_3_long_texts_are_cut_between_two_characters() {
        let entry = AuditEntry {
            actor: format!("a{}", "ß".repeat(300)),
            action: "re\0play".to_owned(),
            target: "€".repeat(1_000),
            outcome: "x".repeat(2_000),
            changed: 7,
        };
        let cut = entry.cut();
        assert_eq!(cut.actor, format!("a{}", "ß".repeat(127)));
        assert_eq!(cut.action, "replay");
        assert_eq!(cut.target, "€".repeat(666));
        assert_eq!((cut.outcome, cut.changed), (entry.outcome, 7));
    }
}
