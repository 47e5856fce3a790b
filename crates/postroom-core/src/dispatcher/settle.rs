//! The settler: groups outcomes of all workers into few round trips, without delaying a lone one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::work::{End, finish};
use super::{Engine, Finished, Job};
use crate::ids::Lease;
use crate::lifecycle::Settlement;

// A group is sent when it is full, when its first member waited this long, or when nothing else
// runs.
const LONGEST_WAIT: Duration = Duration::from_millis(3);
// As much as a claim brings, or claims would go ahead of settles; but never less than this.
const FULL: u32 = 500;

// So soon after the group before, more is probably on its way even if nothing runs.
const BUSY: Duration = Duration::from_millis(2);

impl Engine {
    /// Settles until the workers are gone.
    pub(super) async fn settle(
        self: Arc<Self>,
        mut finished: mpsc::Receiver<Vec<Finished>>,
        jobs: mpsc::WeakSender<Job>,
    ) {
        // When the group before was written.
        let mut last: Option<Instant> = None;
        while let Some(mut group) = finished.recv().await {
            let busy = last.is_some_and(|last| last.elapsed() < BUSY);
            self.fill(&mut group, &mut finished, &jobs, busy).await;
            let rest = self.send(group, &jobs).await;
            if !rest.is_empty() {
                // Nothing waits behind these any more.
                let _ = self.send(rest, &jobs).await;
            }
            last = Some(Instant::now());
        }
    }

    async fn fill(
        &self,
        group: &mut Vec<Finished>,
        finished: &mut mpsc::Receiver<Vec<Finished>>,
        jobs: &mpsc::WeakSender<Job>,
        busy: bool,
    ) {
        let until = Instant::now() + LONGEST_WAIT;
        let full = self.config.batch.max(FULL) as usize;
        while group.len() < full {
            // The next of a key waits for the settle of the one before.
            let urgent = || !busy || group.iter().any(|done| done.key.is_some());
            match finished.try_recv() {
                Ok(next) => group.extend(next),
                Err(_) if !self.works(jobs) && urgent() => return,
                Err(_) => match timeout_at(until, finished.recv()).await {
                    Ok(Some(next)) => group.extend(next),
                    Ok(None) | Err(_) => return,
                },
            }
        }
    }

    /// Whether something runs, or is about to: between two jobs a worker has none.
    fn works(&self, jobs: &mpsc::WeakSender<Job>) -> bool {
        let waits = |jobs: mpsc::Sender<Job>| jobs.capacity() < jobs.max_capacity();
        self.load.running.load(Ordering::Relaxed) > 0 || jobs.upgrade().is_some_and(waits)
    }

    /// Settles a group and lets the keys in it go on. The answer is to be given back: what waited
    /// behind items that did not end well.
    async fn send(&self, group: Vec<Finished>, jobs: &mpsc::WeakSender<Job>) -> Vec<Finished> {
        let unsettled = self.write_all(&group).await;
        self.done.settled(&group, &unsettled, self.config.lease);
        let mut keys: BTreeMap<i64, bool> = BTreeMap::new();
        for done in group {
            if let Some(key) = done.key {
                let well = self.lets_the_next_go(&done) && !unsettled.contains(&done.lease);
                *keys.entry(key).or_insert(true) &= well;
            }
            if self.leases.remove(done.lease) {
                // The next suspect may come.
                self.queue.store().local().wake();
            }
            drop(done.place);
        }
        self.freed.notify_one();
        let mut rest = Vec::new();
        for (key, well) in keys {
            let next = if well { self.keys.next(key) } else { None };
            let refused = next.and_then(|next| start(next, jobs).err());
            if refused.is_some() || !well {
                let held = refused.into_iter().map(|job| *job).chain(self.keys.end(key));
                // They are not the last of their key: nothing follows from giving them back.
                let released = held
                    .map(|job| finish(Job { key: None, ..job }, End::Settle(Settlement::Release)));
                rest.extend(released);
            }
        }
        rest
    }

    fn lets_the_next_go(&self, done: &Finished) -> bool {
        match done.end {
            End::Settled | End::Settle(Settlement::Done) => true,
            End::Settle(Settlement::Dead { .. }) => !self.queue.store().halts(),
            _ => false,
        }
    }

    /// Sends a group, again and again while the database is away: the fence makes that safe.
    /// Answers with what is not known to be settled.
    async fn write_all(&self, group: &[Finished]) -> HashSet<Lease> {
        let items: Vec<_> = group.iter().filter_map(to_write).collect();
        if items.is_empty() {
            return HashSet::new();
        }
        if let Some(unsettled) = self.write(&items).await {
            return unsettled;
        }
        // One item may be what the database refuses: the others must not share its fate, but for
        // those behind it in its key.
        let (mut unsettled, mut cut) = (HashSet::new(), HashSet::new());
        for done in group {
            let Some(item) = to_write(done) else { continue };
            let answer = match done.key.is_some_and(|key| cut.contains(&key)) {
                true => None,
                false => self.write(&[item]).await,
            };
            match answer {
                Some(one) => unsettled.extend(one),
                None => {
                    unsettled.insert(done.lease);
                    cut.extend(done.key);
                }
            }
        }
        unsettled
    }

    /// What of it was lost or is unknown, usually nothing; it may take an outage. None when it was
    /// not written: what the database refuses is not tried again, and nothing is after the last
    /// call to stop. Such items come again when their lease runs out.
    async fn write(&self, items: &[(Lease, Settlement)]) -> Option<HashSet<Lease>> {
        let mut wait = Duration::from_millis(50);
        let mut outage = false;
        loop {
            match self.queue.settle(self.owner, items.to_vec()).await {
                Ok(settled) => {
                    if outage {
                        self.observer().recovered("settle");
                    }
                    if !settled.lost.is_empty() {
                        self.observer().lost(settled.lost.len());
                    }
                    self.note_retries(items);
                    return Some(settled.lost.into_iter().chain(settled.unknown).collect());
                }
                Err(error) => {
                    if !std::mem::replace(&mut outage, true) {
                        self.observer().outage("settle", &error);
                    }
                    if !error.is_transient() || self.kill.is_cancelled() {
                        return None;
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

/// What the database does not know yet.
fn to_write(done: &Finished) -> Option<(Lease, Settlement)> {
    match &done.end {
        End::Settle(settlement) => Some((done.lease, settlement.clone())),
        End::Settled | End::Lost => None,
    }
}

/// Hands the next of a key to the workers; it comes back when they take no more. There is room: it
/// has its place.
fn start(next: Job, jobs: &mpsc::WeakSender<Job>) -> Result<(), Box<Job>> {
    let Some(jobs) = jobs.upgrade() else { return Err(Box::new(next)) };
    jobs.try_send(next).map_err(|refused| Box::new(refused.into_inner()))
}
