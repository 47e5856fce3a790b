//! The ordered items that this process holds, by key: one is being handled, the others wait for it.
//!
//! The next one starts when the settle of the one before was confirmed as done, or as dead where
//! that does not stop the key. Whatever else happens, everything that is held of the key is given
//! back.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::work::Job;

#[derive(Debug, Default)]
pub(super) struct Keys {
    /// What waits, per key with an item in this process.
    runs: Mutex<BTreeMap<i64, VecDeque<Job>>>,
    /// Whether a claim had to leave keys out because of that.
    left_out: AtomicBool,
    ended: Notify,
}

impl Keys {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, VecDeque<Job>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The keys that the next claim must leave out.
    pub(super) fn held(&self) -> Vec<i64> {
        let held: Vec<_> = self.lock().keys().copied().collect();
        self.left_out.fetch_or(!held.is_empty(), Ordering::Relaxed);
        held
    }

    /// Takes the items of a claim in, all at once: between two items of a key the first one must
    /// not end, or the second would be a first one. Those that may start come back: the first of
    /// each key, and what has no key.
    pub(super) fn admit(&self, jobs: Vec<Job>) -> Vec<Job> {
        let mut runs = self.lock();
        let mut start = Vec::new();
        for job in jobs {
            match job.key.map(|key| runs.entry(key)) {
                Some(Entry::Occupied(mut waiting)) => waiting.get_mut().push_back(job),
                Some(Entry::Vacant(vacant)) => {
                    vacant.insert(VecDeque::new());
                    start.push(job);
                }
                None => start.push(job),
            }
        }
        start
    }

    /// The first of those that wait, for a sink that takes a run at once.
    pub(super) fn more(&self, key: i64) -> Option<Job> {
        self.lock().get_mut(&key)?.pop_front()
    }

    /// Takes back what [`more`](Self::more) gave.
    pub(super) fn put_back(&self, key: i64, job: Job) {
        self.lock().entry(key).or_default().push_front(job);
    }

    /// The next of a key whose last one ended well. With none left the key is free.
    pub(super) fn next(&self, key: i64) -> Option<Job> {
        let next = self.lock().get_mut(&key).and_then(VecDeque::pop_front);
        if next.is_none() {
            let _ = self.end(key);
        }
        next
    }

    /// Frees a key. What waited is to be given back.
    pub(super) fn end(&self, key: i64) -> VecDeque<Job> {
        let rest = self.lock().remove(&key).unwrap_or_default();
        if self.left_out.swap(false, Ordering::Relaxed) {
            self.ended.notify_one();
        }
        rest
    }

    /// Resolves when a key that a claim had to leave out may be free.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Semaphore;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::clock::Timestamp;
    use crate::store::WorkItem;
    use crate::{Lease, LeaseToken, Message, WorkId};

    fn job(seq: i64, key: Option<i64>) -> Job {
        let now = Timestamp::from_micros(0);
        let item = WorkItem {
            lease: Lease { work: WorkId::new(seq), token: LeaseToken::random() },
            message: Message::builder("t").build().expect("legal"),
            attempts: 0,
            lost: 0,
            created_at: now,
            claimed_at: now,
            locked_until: now.saturating_add(Duration::from_secs(30)),
        };
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("free").into();
        let (cancelled, since) = (CancellationToken::new(), Instant::now());
        Job { item, place, cancelled, since, expires: None, hot: false, key, turn: None }
    }

    fn seqs(jobs: impl IntoIterator<Item = Job>) -> Vec<i64> {
        jobs.into_iter().map(|job| job.item.lease.work.seq()).collect()
    }

    #[test]
    fn ord_1_the_first_of_each_key_starts_and_the_others_wait() {
        let keys = Keys::default();
        let claim = vec![job(1, Some(7)), job(2, Some(7)), job(3, None), job(4, Some(8))];
        assert_eq!(seqs(keys.admit(claim)), [1, 3, 4]);
        assert_eq!(seqs(keys.admit(vec![job(5, Some(7))])), [0; 0]);
        assert_eq!(keys.held(), [7, 8]);
        assert_eq!((seqs(keys.next(7)), seqs(keys.next(8))), (vec![2], vec![]));
        assert_eq!(keys.held(), [7]);
    }

    /// A first item that fails the moment it is handed out takes with it what was claimed behind
    /// it, however soon that is.
    #[test]
    fn ord_2_with_its_first_item_out_all_of_a_key_waits() {
        let keys = Keys::default();
        let mut start = keys.admit((1..=4).map(|seq| job(seq, Some(7))).collect()).into_iter();
        assert_eq!(seqs(start.next()), [1]);
        assert_eq!(seqs(keys.end(7)), [2, 3, 4]);
        assert!(start.next().is_none(), "nothing of it can start any more");
    }
}
