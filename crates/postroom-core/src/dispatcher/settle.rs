//! The settler: groups outcomes of all workers into few round trips, without delaying a lone one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::{Engine, Finished};
use crate::ids::Lease;
use crate::lifecycle::Settlement;
use crate::observe;

// A group is sent when it is full, when its first member waited this long, or when nothing else
// runs.
const LONGEST_WAIT: Duration = Duration::from_millis(2);
const FULL: usize = 500;

impl Engine {
    /// Settles until the workers are gone.
    pub(super) async fn settle(self: Arc<Self>, mut finished: mpsc::Receiver<Finished>) {
        while let Some(first) = finished.recv().await {
            let mut group = vec![first];
            self.fill(&mut group, &mut finished).await;
            self.send(group).await;
        }
    }

    async fn fill(&self, group: &mut Vec<Finished>, finished: &mut mpsc::Receiver<Finished>) {
        let until = Instant::now() + LONGEST_WAIT;
        while group.len() < FULL {
            match finished.try_recv() {
                Ok(next) => group.push(next),
                Err(_) if self.running.load(Ordering::Relaxed) == 0 => return,
                Err(_) => match timeout_at(until, finished.recv()).await {
                    Ok(Some(next)) => group.push(next),
                    Ok(None) | Err(_) => return,
                },
            }
        }
    }

    /// Sends a group, again and again while the database is away: the fence makes that safe.
    async fn send(&self, group: Vec<Finished>) {
        let items: Vec<(Lease, Settlement)> =
            group.iter().filter_map(|done| Some((done.lease, done.settlement.clone()?))).collect();
        let mut wait = Duration::from_millis(50);
        let mut outage = false;
        loop {
            match self.queue.settle(self.owner, items.clone()).await {
                Ok(settled) => {
                    if outage {
                        observe::recovered("settle");
                    }
                    if !settled.lost.is_empty() {
                        observe::lost(settled.lost.len());
                    }
                    break;
                }
                Err(error) => {
                    if !std::mem::replace(&mut outage, true) {
                        observe::outage("settle", &error);
                    }
                    // After the last call to stop, what is not settled waits for its lease to end.
                    if !error.is_transient() || self.kill.is_cancelled() {
                        break;
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(5));
                }
            }
        }
        for done in group {
            self.leases.remove(done.lease);
            drop(done.place);
        }
    }
}
