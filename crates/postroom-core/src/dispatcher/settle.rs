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
        if !self.write(&items).await {
            // One item may be what the database refuses: the others must not share its fate.
            for item in items {
                let _ = self.write(&[item]).await;
            }
        }
        for done in group {
            self.leases.remove(done.lease);
            drop(done.place);
        }
        self.settled.notify_one();
    }

    /// Whether that worked, now or after an outage. What the database refuses is not tried again,
    /// and nothing is after the last call to stop: such items come again when their lease runs out.
    async fn write(&self, items: &[(Lease, Settlement)]) -> bool {
        let mut wait = Duration::from_millis(50);
        let mut outage = false;
        loop {
            match self.queue.settle(self.owner, items.to_vec()).await {
                Ok(settled) => {
                    if outage {
                        observe::recovered("settle");
                    }
                    if !settled.lost.is_empty() {
                        observe::lost(settled.lost.len());
                    }
                    self.note_retries(items);
                    return true;
                }
                Err(error) => {
                    if !std::mem::replace(&mut outage, true) {
                        observe::outage("settle", &error);
                    }
                    if !error.is_transient() || self.kill.is_cancelled() {
                        return false;
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(5));
                }
            }
        }
    }

    /// The database counts a delay from the settle, so the time to look again is known only now.
    fn note_retries(&self, items: &[(Lease, Settlement)]) {
        let now = Instant::now() + Duration::from_millis(1);
        for (_, settlement) in items {
            match settlement {
                Settlement::Retry { delay, .. } => self.next_retry.at(now + *delay),
                // Ready again: nobody else may have noticed.
                Settlement::Release => self.queue.store().wake(),
                Settlement::Done | Settlement::Dead { .. } => {}
            }
        }
    }
}
