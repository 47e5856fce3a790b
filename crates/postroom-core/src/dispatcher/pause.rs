//! Pauses: what this process has queued of a paused topic is given back instead of started.
//!
//! A claim and an append look for pauses themselves, so only what came into this process before a
//! pause is of interest here. It is looked for while something waits for a worker, and never when
//! idle.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::work::Job;
use crate::store::Paused;

// Twice in the second within which a pause is to be seen.
const LOOK_EVERY: Duration = Duration::from_millis(500);

const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// What was paused at the last look.
#[derive(Debug, Default)]
pub(super) struct Pauses(Mutex<Option<Seen>>);

#[derive(Debug)]
struct Seen {
    at: Instant,
    paused: Paused,
}

impl Engine {
    /// Looks for pauses until `end`, and says that it is alive.
    pub(super) async fn watch_pauses(self: Arc<Self>, end: CancellationToken) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.load.beat();
            if self.leases.count() > self.load.running.load(Ordering::Relaxed) {
                self.look_for_pauses().await;
            }
        }
    }

    async fn look_for_pauses(&self) {
        let at = Instant::now();
        // While the database is away nothing can be given back anyway; claims report that.
        // The next sign of life waits for this.
        let limit = LOOK_LIMIT.min(self.config.lease / 3);
        let looking = timeout(limit, self.queue.store().paused());
        if let Ok(Ok(paused)) = looking.await {
            *self.pauses.0.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Seen { at, paused });
        }
    }

    /// Whether a job's topic is paused. What came after the last look is not: whoever leased it
    /// looked later, and perhaps the pause was over.
    pub(super) fn is_paused(&self, job: &Job) -> bool {
        let seen = self.pauses.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Seen { at, paused }) = &*seen else { return false };
        let is_empty = !paused.all && paused.topics.is_empty();
        !is_empty && paused.covers(job.item.message.topic_hash()) && job.since < *at
    }
}
