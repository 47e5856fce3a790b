//! What is deleted because it is old.

use std::time::Duration;

/// What to delete. An age of `None` keeps everything of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Done and discarded messages older than this, and joins that ended longer ago. Default 30
    /// days.
    pub done: Option<Duration>,
    /// Other dead messages older than this. Default: kept for ever.
    pub dead: Option<Duration>,
    /// Unique keys whose message was settled longer ago than this: of an inbox, how long it knows
    /// a message by. Default 30 days.
    pub keys: Option<Duration>,
    /// How many messages, keys, joins and members of joins at most in this call, of each. Default
    /// 1,000.
    pub limit: u32,
}

impl Default for Purge {
    fn default() -> Self {
        let month = Duration::from_hours(30 * 24);
        Self { done: Some(month), dead: None, keys: Some(month), limit: 1_000 }
    }
}

/// The answer to a purge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Purged {
    /// Messages deleted.
    pub messages: u32,
    /// Idempotency keys deleted.
    pub keys: u32,
    /// Joins deleted, each after its members.
    pub joins: u32,
    /// Whether there may be more.
    pub more: bool,
}
