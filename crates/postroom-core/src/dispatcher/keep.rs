//! Housekeeping: expired leases go back to ready, and old messages are deleted.
//!
//! Nothing waits for it. A claim takes expired leases over by itself; this is for what no claim
//! looks at, and for people who look at the queue.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Engine;
use crate::clock;

// Small enough not to be in anybody's way.
const REAPED_AT_ONCE: u32 = 500;

// Between two chunks.
const BREATHER: Duration = Duration::from_millis(50);

const PURGE_EVERY: Duration = Duration::from_hours(1);

impl Engine {
    /// Keeps house until it is time to stop.
    pub(super) async fn keep_house(self: Arc<Self>) {
        let mut reap_at = Instant::now() + jittered(self.config.lease);
        // Soon after the start, because some processes never live for an hour.
        let mut purge_at = Instant::now() + jittered(PURGE_EVERY / 30);
        while self.sleep_until(reap_at.min(purge_at)).await {
            if reap_at <= Instant::now() {
                self.next_visit().await;
                self.reap().await;
                reap_at = Instant::now() + jittered(self.config.lease);
            }
            if purge_at <= Instant::now() {
                self.purge().await;
                purge_at = Instant::now() + jittered(PURGE_EVERY);
            }
        }
    }

    /// The poller usually looks again soon.
    async fn next_visit(&self) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = self.visits.next(self.config.visit_wait()) => {}
        }
    }

    async fn reap(&self) {
        // Whoever has the turn may wait for a database that hangs; a stop does not wait with it.
        let _turn = tokio::select! {
            biased;
            () = self.stop.cancelled() => return,
            turn = self.visits.turn() => turn,
        };
        // A database that is away is the claims' business to tell.
        while let Ok(reaped) = self.queue.reap(REAPED_AT_ONCE).await {
            if reaped.released + reaped.dead > 0 {
                self.observer().reaped(reaped.released, reaped.dead);
                self.queue.store().wake();
            }
            if !reaped.more || !self.sleep_until(Instant::now() + BREATHER).await {
                return;
            }
        }
    }

    async fn purge(&self) {
        let Some(purge) = self.config.purge else { return };
        while let Ok(purged) = self.queue.purge(&purge).await {
            if !purged.more || !self.sleep_until(Instant::now() + BREATHER).await {
                return;
            }
        }
    }

    /// Whether it may go on then.
    async fn sleep_until(&self, time: Instant) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = sleep_until(time) => true,
        }
    }
}

/// So that many processes do not march in step.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.8 + 0.4 * clock::random_unit())
}
