//! The hot queue: what this process publishes goes to its own workers, without a claim.
//!
//! A place is reserved before the row is written, and only then is the row born leased. The place
//! travels with the message and comes back on every path: at a duplicate, at any end of the
//! transaction but a confirmed commit, and when the outcome is settled. Whoever holds a place also
//! keeps the queue open, so that what is committed during a shutdown still finds somebody to give
//! it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use super::leases::Leases;
use super::limits::Limits;
use super::work::{End, Finished, Job};
use crate::clock::Timestamp;
use crate::ids::{Lease, LeaseToken, OwnerToken};
use crate::lifecycle::Settlement;
use crate::message::{Message, When};
use crate::observe::Observer;
use crate::sink::Sink;
use crate::store::{Appended, Birth, Entry, WorkItem};

/// The publishers' end of the hot queue of a running dispatcher.
pub(crate) struct Hot {
    pub(super) owner: OwnerToken,
    pub(super) lease: Duration,
    pub(super) margin: Duration,
    /// A permit per message that may be in this process by this way.
    pub(super) places: Arc<Semaphore>,
    pub(super) size: usize,
    pub(super) jobs: mpsc::Sender<Job>,
    /// Weak, because the settler ends with the workers.
    pub(super) finished: mpsc::WeakSender<Vec<Finished>>,
    pub(super) leases: Arc<Leases>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) limits: Arc<Limits>,
    pub(super) observer: Observer,
    /// Whether messages found no place lately; told once.
    pub(super) full: AtomicBool,
}

impl Hot {
    pub(crate) fn owner(&self) -> OwnerToken {
        self.owner
    }

    /// Order and due times are the claim's business, whether a point in time has passed is for the
    /// database's clock to say, and what has to wait here may as well be taken by others.
    fn wants(&self, message: &Message) -> bool {
        let expires_at = matches!(message.expires(), Some(When::At(_)));
        let may_be_hot = message.ordering_key().is_none() && message.due().is_none();
        may_be_hot
            && !expires_at
            && self.sink.takes(message.topic())
            && !self.limits.is_full_for(message)
    }

    /// As many places as there are, up to `wanted`.
    fn reserve(&self, wanted: usize) -> Option<OwnedSemaphorePermit> {
        loop {
            let some = wanted.min(self.places.available_permits());
            // A dispatcher whose runtime is gone has never said so.
            if some == 0 || self.jobs.is_closed() {
                return None;
            }
            if let Ok(places) = Arc::clone(&self.places).try_acquire_many_owned(some as u32) {
                return Some(places);
            }
        }
    }

    fn count_dropped(&self, dropped: usize) {
        if dropped > 0 {
            self.observer.hot_dropped(dropped);
            if !self.full.swap(true, Ordering::Relaxed) {
                self.observer.hot_queue_full(self.size);
            }
        } else if self.full.load(Ordering::Relaxed)
            && self.places.available_permits() >= self.size.div_ceil(2)
        {
            // Well below the brim, or a queue that is just full would tell with every message.
            self.full.store(false, Ordering::Relaxed);
        }
    }
}

/// What one transaction hands to the dispatcher of this process once its commit is confirmed.
/// Dropping it hands over nothing.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    hot: Option<Arc<Hot>>,
    written: Vec<Written>,
    dropped: usize,
}

/// A row that was born leased.
#[derive(Debug)]
struct Written {
    item: WorkItem,
    place: OwnedSemaphorePermit,
    deadline: Instant,
    expires: Option<Instant>,
}

impl Handover {
    pub(crate) fn to(hot: Option<Arc<Hot>>) -> Self {
        Self { hot, ..Self::default() }
    }

    /// How many rows were born leased.
    pub(crate) fn len(&self) -> usize {
        self.written.len()
    }

    /// Finds places for the messages of one append. Call it right before: time counts from here.
    pub(crate) fn reserve(&mut self, messages: &[&Message]) -> Reserved {
        let mut reserved = Reserved {
            places: None,
            wanted: Vec::new().into_iter(),
            free: 0,
            birth: Birth::Ready,
            token: None,
            before: Instant::now(),
        };
        let Some(hot) = &self.hot else { return reserved };
        let wants: Vec<bool> = messages.iter().map(|message| hot.wants(message)).collect();
        let wanted = wants.iter().filter(|wanted| **wanted).count();
        reserved.wanted = wants.into_iter();
        if let Some(places) = hot.reserve(wanted) {
            let token = LeaseToken::random();
            reserved.free = places.num_permits();
            reserved.places = Some(places);
            reserved.token = Some(token);
            reserved.birth = Birth::Leased { owner: hot.owner, token, lease: hot.lease };
        }
        self.dropped += wanted - reserved.free;
        reserved
    }

    /// Takes note of what the append wrote. Places of duplicates come back here.
    pub(crate) fn wrote(&mut self, reserved: Reserved, entries: &[Entry], appended: &[Appended]) {
        let Reserved { places: Some(mut places), token: Some(token), before, .. } = reserved else {
            return;
        };
        let Some(hot) = &self.hot else { return };
        // The database's time of writing is not known here; the host's is close enough to show.
        let created_at = Timestamp::host_now();
        for (entry, appended) in entries.iter().zip(appended) {
            let Appended::New { work, leased: true } = *appended else { continue };
            let Some(place) = places.split(1) else { break };
            let item = WorkItem {
                lease: Lease { work, token },
                message: entry.message.as_written(created_at),
                attempts: 0,
                lost: 0,
                created_at,
                claimed_at: created_at,
                locked_until: created_at.saturating_add(hot.lease),
            };
            let expires = match entry.message.expires() {
                Some(When::After(delay)) => before.checked_add(delay),
                _ => None,
            };
            let deadline = before + hot.lease - hot.margin;
            self.written.push(Written { item, place, deadline, expires });
        }
    }

    /// Sends everything to the workers: only after a confirmed commit. What is too late to be
    /// started is given back instead. The answer is what nobody here can give back any more.
    pub(crate) fn send(self) -> Option<(OwnerToken, Vec<Lease>)> {
        let hot = self.hot?;
        hot.count_dropped(self.dropped);
        let now = Instant::now();
        let mut refused = Vec::new();
        for written in self.written {
            let lease = written.item.lease;
            let taken = match written.deadline > now {
                true => hot.start(written),
                false => hot.release(written),
            };
            if !taken {
                refused.push(lease);
            }
        }
        (!refused.is_empty()).then_some((hot.owner, refused))
    }
}

impl Hot {
    fn start(&self, written: Written) -> bool {
        let Written { item, place, deadline, expires } = written;
        let (lease, place) = (item.lease, place.into());
        // Before it is sent: a worker starts nothing whose lease it does not know.
        let cancelled = self.leases.add(lease, deadline, false);
        let (since, hot, key, turn) = (Instant::now(), true, None, None);
        let sent =
            self.jobs.try_send(Job { item, place, cancelled, since, expires, hot, key, turn });
        if sent.is_err() {
            self.leases.remove(lease);
        }
        sent.is_ok()
    }

    fn release(&self, written: Written) -> bool {
        let Some(finished) = self.finished.upgrade() else { return false };
        let (lease, end) = (written.item.lease, End::Settle(Settlement::Release));
        let released = Finished { lease, end, place: written.place.into(), key: None };
        finished.try_send(vec![released]).is_ok()
    }
}

/// Places for one append, and how its rows are born.
#[derive(Debug)]
pub(crate) struct Reserved {
    places: Option<OwnedSemaphorePermit>,
    /// Which of the messages are to have one.
    wanted: std::vec::IntoIter<bool>,
    free: usize,
    birth: Birth,
    token: Option<LeaseToken>,
    before: Instant,
}

impl Reserved {
    /// The next message with the next free place, if it is to have one and there is one.
    pub(crate) fn entry(&mut self, message: &Message) -> Entry {
        let mut birth = Birth::Ready;
        if self.wanted.next() == Some(true) && self.free > 0 {
            self.free -= 1;
            birth = self.birth;
        }
        Entry { message: message.clone(), birth }
    }
}

impl std::fmt::Debug for Hot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hot").field("owner", &self.owner).finish_non_exhaustive()
    }
}
