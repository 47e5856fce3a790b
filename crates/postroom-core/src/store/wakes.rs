//! How a store learns of work that other processes commit.

/// How a store learns of work that other processes commit; what is committed in this process is
/// always told at once.
///
/// It concerns how soon a dispatcher looks, and nothing else: polling finds everything in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wakes {
    /// Not at all: nobody waits here for work, or no other process can have any.
    #[default]
    InProcess,
    /// At once.
    Listening,
    /// By polling, though it could be at once: health is degraded.
    PollOnly {
        /// What is in the way.
        why: Silence,
    },
}

/// Why a store does not hear of other processes' work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Silence {
    /// The connection that listens was lost, or can not be made.
    Unreachable,
    /// It was made, but a notification sent as a test did not arrive: so does a connection pooler
    /// that gives a server connection to each transaction.
    Undelivered,
}

impl Silence {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "no connection to listen on",
            Self::Undelivered => "notifications do not arrive; is there a pooler in between?",
        }
    }
}
