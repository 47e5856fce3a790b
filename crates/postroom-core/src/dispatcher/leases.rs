//! The leases that this process holds, their local deadlines, and their renewal.
//!
//! A deadline is taken before the claim or renewal is sent, minus a margin, so that this process
//! stops using a lease before the database lets somebody else have it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::ids::Lease;

/// What is held, queued or running.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<BTreeMap<Lease, Held>>);

#[derive(Debug)]
struct Held {
    deadline: Instant,
    cancelled: CancellationToken,
    suspect: bool,
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Lease, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a lease; the token is cancelled when it is lost. The item is a suspect if a
    /// lease on it ran out before.
    pub(super) fn add(&self, lease: Lease, deadline: Instant, suspect: bool) -> CancellationToken {
        let cancelled = CancellationToken::new();
        self.lock().insert(lease, Held { deadline, cancelled: cancelled.clone(), suspect });
        cancelled
    }

    /// Tells whether it was a suspect.
    pub(super) fn remove(&self, lease: Lease) -> bool {
        self.lock().remove(&lease).is_some_and(|held| held.suspect)
    }

    pub(super) fn has_suspect(&self) -> bool {
        self.lock().values().any(|held| held.suspect)
    }

    /// The local end of a lease; none when it is not held any more.
    pub(super) fn deadline(&self, lease: Lease) -> Option<Instant> {
        self.lock().get(&lease).map(|held| held.deadline)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn all(&self) -> Vec<Lease> {
        self.lock().keys().copied().collect()
    }

    fn extend(&self, renewed: &[Lease], deadline: Instant) {
        let mut held = self.lock();
        for lease in renewed {
            if let Some(held) = held.get_mut(lease) {
                held.deadline = deadline;
            }
        }
    }

    fn lose(&self, lost: &[Lease]) {
        let mut held = self.lock();
        for lease in lost {
            if let Some(held) = held.remove(lease) {
                held.cancelled.cancel();
            }
        }
    }

    fn overdue(&self, now: Instant) -> Vec<Lease> {
        self.lock().iter().filter(|(_, held)| held.deadline <= now).map(|(l, _)| *l).collect()
    }
}

impl Engine {
    /// Renews everything that is held, at a third of the lease, until `end`.
    pub(super) async fn renew_leases(&self, end: CancellationToken) {
        let mut ticks = interval(self.config.lease / 3);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                _ = ticks.tick() => {}
            }
            self.renew_once().await;
            // Without renewals a lease ends here before it ends there.
            self.leases.lose(&self.leases.overdue(Instant::now()));
        }
    }

    async fn renew_once(&self) {
        let all = self.leases.all();
        if all.is_empty() {
            return;
        }
        let deadline = Instant::now() + self.config.lease - self.config.margin();
        // A connection that hangs must not keep this from noticing that leases are over.
        let renewal = self.queue.renew(self.owner, &all, self.config.lease);
        let Ok(answer) = timeout(self.config.lease / 3, renewal).await else { return };
        match answer {
            Ok(renewed) => {
                self.leases.lose(&renewed.lost);
                self.leases.extend(&all, deadline);
            }
            Err(error) => self.observer().outage("renew", &error),
        }
    }
}
