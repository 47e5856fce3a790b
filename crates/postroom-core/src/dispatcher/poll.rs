//! The poller: claims what there is room for, and waits well when there is nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::place::{Place, Places};
use super::{Engine, Job};
use crate::clock;
use crate::ids::Lease;
use crate::message::When;
use crate::store::{Claim, Claimed, WorkItem};

// One claim in so many takes a suspect although no worker is idle.
const SUSPECT_EVERY: usize = 16;

// How long a claim for keys that were left out waits for more of them to end.
const GATHER: Duration = Duration::from_millis(3);

// How long a claim may wait for more places while there is enough to do.
const MOST_GATHERING: Duration = Duration::from_millis(25);

// A poller that had nothing to do for so long asks when the next message is due.
const REST: Duration = Duration::from_millis(100);

// Clocks tick in steps.
const DUE_MARGIN: Duration = Duration::from_millis(1);

impl Engine {
    /// Claims until it is told to stop. Ends the channel then, which ends the workers.
    pub(super) async fn poll(self: Arc<Self>, jobs: mpsc::Sender<Job>) {
        let mut idle = Idle::new(self.config.poll_interval, self.config.longest_wait());
        let mut outage = false;
        let mut asked = self.ask().await;
        while let Some(Asked { places, at, answer }) = asked {
            asked = match answer {
                Ok(claimed) => {
                    if std::mem::take(&mut outage) {
                        self.observer().recovered("claim");
                    }
                    self.visits.begin();
                    let got = claimed.items.len() + claimed.dead as usize;
                    let start = self.take_in(claimed, places, at);
                    match got {
                        0 => self.wait(idle.next()).await,
                        _ => idle.reset(),
                    }
                    // Nobody is kept waiting; what is more is handed out while the next claim is
                    // on its way.
                    let mut start = start.into_iter();
                    let first = start.by_ref().take(self.config.workers);
                    self.hand_out(first, &jobs).await;
                    tokio::join!(biased; self.ask(), self.hand_out(start, &jobs)).0
                }
                Err(error) => {
                    drop(places);
                    if !std::mem::replace(&mut outage, true) {
                        self.observer().outage("claim", &error);
                    }
                    self.pause(idle.next()).await;
                    self.ask().await
                }
            };
        }
    }

    /// A claim, once there is room for it; none when it is time to stop.
    async fn ask(&self) -> Option<Asked> {
        let mut places = self.places().await?;
        let at = Instant::now();
        self.next_retry.forget_due();
        let answer = places.during(self.claim(places.count())).await;
        Some(Asked { places, at, answer })
    }

    /// Room for a batch, once there is room for one; none when it is time to stop.
    async fn places(&self) -> Option<Places> {
        // No more than can be started in time, even if there is room.
        while self.pace() == 0 {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                () = self.freed.notified() => {}
            }
        }
        self.gather_places().await;
        let mut places = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            place = Arc::clone(&self.load.cold.free).acquire_owned() => place.ok()?,
        };
        let batch = self.config.batch as usize;
        let more = self.load.cold.free.available_permits().min(batch - 1).min(self.pace());
        if let Ok(more) = Arc::clone(&self.load.cold.free).try_acquire_many_owned(more as u32) {
            places.merge(more);
        }
        let Some(seat) = &self.seat else { return Some(Places::new(places, None)) };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            turn = seat.turn(places.num_permits()) => Some(Places::new(places, Some(turn))),
        }
    }

    /// Waits for half a batch of free places, as long as there is plenty to do meanwhile and they
    /// are free soon. Claims of a few items each would cost the server more than the items do.
    async fn gather_places(&self) {
        let room = self.config.cold_queue;
        let wanted = (self.config.batch as usize / 2).min(room / 4);
        let missing = wanted.saturating_sub(self.load.cold.free.available_permits());
        let per_second = self.pace.per_second().unwrap_or(0.0);
        let takes = missing as f64 / per_second;
        if missing == 0 || self.under_way() < room / 2 || takes > MOST_GATHERING.as_secs_f64() {
            return;
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            _ = self.load.cold.free.acquire_many(wanted as u32) => {}
            () = tokio::time::sleep(MOST_GATHERING) => {}
        }
    }

    /// How many more items can be started within half a lease at the recent rate, but one per
    /// worker.
    fn pace(&self) -> usize {
        self.sustained().saturating_sub(self.under_way())
    }

    /// How many that is in all.
    fn sustained(&self) -> usize {
        let sustained = self.pace.per_second().map_or(self.config.batch as usize, |per_second| {
            (per_second * self.config.lease.as_secs_f64() / 2.0) as usize
        });
        sustained.max(self.config.workers)
    }

    /// What keys share. Room that is shared with other stores may be theirs the next time.
    fn capacity(&self) -> u32 {
        let alone = self.seat.is_none().then(|| self.sustained().min(self.config.cold_queue));
        alone.and_then(|room| u32::try_from(room).ok()).unwrap_or_default()
    }

    /// Claimed items and places for such. What waits for its topic's turn is not counted: it must
    /// not keep others from being claimed.
    fn under_way(&self) -> usize {
        let claimed = self.config.cold_queue - self.load.cold.free.available_permits();
        claimed.saturating_sub(self.limits.waiting())
    }

    async fn claim(&self, places: usize) -> crate::Result<Claimed> {
        // One suspect at a time: if it kills this process, no other one has to pay for that. It
        // starts at once, so somebody must be idle; but now and then it comes even when all are
        // busy, or suspects would starve under load.
        let held = self.under_way().saturating_sub(places);
        let busy = held.max(self.load.running.load(Ordering::Relaxed));
        let idle = self.config.workers.saturating_sub(busy);
        let turn = self.claims.fetch_add(1, Ordering::Relaxed);
        let in_time = idle > 0 || turn.is_multiple_of(SUSPECT_EVERY);
        let suspects = u32::from(in_time && !self.leases.has_suspect());
        let claim = Claim::new(self.owner, self.config.lease, places as u32)?
            .suspects(suspects)
            .max_attempts(self.config.most_attempts())
            .except_topics([self.limits.full_topics(), self.left.topics()].concat())
            .ordered(self.sink.takes_every_topic())
            .quick(true)
            .holding(self.keys.held())
            .capacity(self.capacity());
        self.queue.claim_with(&claim).await
    }

    /// Takes note of what was claimed; answers with what may start.
    fn take_in(&self, claimed: Claimed, places: Places, before: Instant) -> Vec<Job> {
        self.observer().fetched(claimed.items.len(), claimed.dead, before.elapsed());
        // Suspects first: nobody waits behind one, and it waits behind nobody.
        let mut items = claimed.items;
        items.sort_by_key(|item| item.lost == 0);
        let places = places.claimed(items.len());
        let job = |(item, place): (WorkItem, Place)| {
            let leased_for = item.locked_until.since(item.claimed_at);
            let deadline = before + leased_for.saturating_sub(self.config.margin());
            let cancelled = self.leases.add(item.lease, deadline, item.lost > 0);
            let expires = local_expiry(&item, before);
            let key = item.message.lane().map(|lane| lane.key_hash);
            let since = Instant::now();
            let (hot, turn) = (false, None);
            Job { item, place, cancelled, since, expires, hot, key, turn }
        };
        self.keys.admit(items.into_iter().zip(places).map(job).collect())
    }

    async fn hand_out(&self, start: impl Iterator<Item = Job>, jobs: &mpsc::Sender<Job>) {
        for job in start {
            if let Err(refused) = jobs.send(job).await {
                // Cannot happen while the poller lives: workers end when this channel does.
                self.leases.remove(refused.0.item.lease);
            }
        }
    }

    /// Waits for a wake-up, the next due time, or the time given.
    async fn wait(&self, duration: Duration) {
        let timer = Instant::now() + duration;
        if self.is_woken_before(timer.min(Instant::now() + REST)).await {
            return;
        }
        // Only at rest: it is one more question to the database.
        let due = match self.queue.store().next_due().await {
            Ok(Some(due)) => Instant::now().checked_add(due + DUE_MARGIN),
            _ => None,
        };
        self.is_woken_before(due.map_or(timer, |due| due.min(timer))).await;
    }

    async fn is_woken_before(&self, timer: Instant) -> bool {
        let retry = self.next_retry.first().filter(|retry| *retry < timer);
        tokio::select! {
            biased;
            () = self.stop.cancelled() => true,
            () = self.queue.store().woken() => true,
            () = self.next_retry.changed() => true,
            () = self.limits.opened() => true,
            // Those that end a moment later come with the same claim.
            () = self.keys.ended() => {
                self.pause(GATHER).await;
                true
            }
            () = sleep_until(retry.unwrap_or(timer)) => retry.is_some(),
        }
    }

    async fn pause(&self, duration: Duration) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(duration) => {}
        }
    }

    pub(super) fn is_current(&self, lease: Lease) -> bool {
        self.leases.deadline(lease).is_some_and(|deadline| deadline > Instant::now())
    }
}

/// An answer to a claim, when it was asked, and the room for what it brings.
struct Asked {
    places: Places,
    at: Instant,
    answer: crate::Result<Claimed>,
}

/// When the message expires on this process's clock: the distance is the database's. What was
/// claimed after its expiry was replayed, and does not expire any more.
fn local_expiry(item: &WorkItem, before: Instant) -> Option<Instant> {
    let Some(When::At(expires)) = item.message.expires() else { return None };
    (expires > item.claimed_at).then(|| before + expires.since(item.claimed_at))
}

/// The growing wait of an idle poller, with jitter so that many do not march in step.
struct Idle {
    base: Duration,
    longest: Duration,
    factor: f64,
}

impl Idle {
    fn new(base: Duration, longest: Duration) -> Self {
        Self { base, longest, factor: 1.0 }
    }

    fn next(&mut self) -> Duration {
        let jitter = 0.8 + 0.4 * clock::random_unit();
        let wait = self.base.mul_f64(self.factor).min(self.longest);
        if wait < self.longest {
            self.factor *= 1.5;
        }
        wait.mul_f64(jitter).min(self.longest)
    }

    fn reset(&mut self) {
        self.factor = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dsp_9_the_idle_wait_grows_to_five_times_and_no_further() {
        let mut idle = Idle::new(Duration::from_secs(1), Duration::from_secs(5));
        let waits: Vec<_> = (0..20).map(|_| idle.next().as_secs_f64()).collect();
        assert!(waits[0] >= 0.8 && waits[0] <= 1.2, "{waits:?}");
        assert!(waits.iter().all(|wait| *wait <= 5.0) && waits[19] >= 4.0, "{waits:?}");
        idle.reset();
        assert!(idle.next() <= Duration::from_millis(1_200));
    }
}
