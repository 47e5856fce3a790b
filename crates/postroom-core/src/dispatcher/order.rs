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

    /// Takes a claimed item in. It comes back if it may start, which is if it is the first.
    pub(super) fn admit(&self, job: Job) -> Option<Job> {
        let Some(key) = job.key else { return Some(job) };
        match self.lock().entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(VecDeque::new());
                Some(job)
            }
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push_back(job);
                None
            }
        }
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
