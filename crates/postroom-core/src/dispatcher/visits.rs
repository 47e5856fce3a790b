//! What an idle dispatcher asks of its database, it asks at one time.
//!
//! It claims, asks what is due next, reaps and says that it lives. Among hundreds of stores that
//! share few connections each question by itself would be a connection by itself. So the others
//! come with a claim, and one after the other.

use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::time::timeout;

/// The times at which the database is asked anyway.
#[derive(Debug, Default)]
pub(super) struct Visits {
    begun: Notify,
    turn: Mutex<()>,
}

impl Visits {
    /// A claim was answered: whoever has something to ask may do so now.
    pub(super) fn begin(&self) {
        self.begun.notify_waiters();
    }

    /// Waits for the next visit, but not for longer than that.
    pub(super) async fn next(&self, patience: Duration) {
        let _ = timeout(patience, self.begun.notified()).await;
    }

    /// The turn to ask: the one before has given its connection back.
    pub(super) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}
