//! Where publishers and dispatchers of one process meet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::dispatcher::hot::{Handover, Hot};
use crate::error::{Error, Result};
use crate::ids::OwnerToken;
use crate::observe::{Load, Loads, Observer, Snapshot, Throughput};
use crate::store::{Purge, Wakes};

/// What all handles of one store share within a process: the wake-up, and the dispatchers that run
/// here and take messages right from a commit.
///
/// A store keeps one, shared by its clones, and gives it out in
/// [`Store::local`](crate::store::Store::local). There is nothing else to do with it.
#[derive(Debug)]
pub struct Local {
    woken: Notify,
    observer: Observer,
    /// In the order in which they started.
    hot: Mutex<Vec<Arc<Hot>>>,
    loads: Loads,
    wakes: Mutex<Wakes>,
    /// How long unique keys must be kept, as an inbox was told.
    redelivery: Mutex<Duration>,
}

impl Local {
    /// For a store that people know by this name, and one of its boxes: `outbox` or `inbox`.
    #[must_use]
    pub fn new(store: &str, queue: &'static str) -> Self {
        let observer = Observer::new(store.into(), queue);
        Self {
            woken: Notify::new(),
            observer,
            hot: Mutex::default(),
            loads: Loads::default(),
            wakes: Mutex::default(),
            redelivery: Mutex::default(),
        }
    }

    /// The store's name, as in log lines and figures.
    #[must_use]
    pub fn name(&self) -> &str {
        self.observer.store()
    }

    /// The figures of this process for this store, with the depths of all dispatchers that run
    /// here.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.loads.add_to(self.observer.snapshot())
    }

    /// What this process delivered of each topic in the last minute. Topics beyond the first
    /// hundred share the name `(others)`.
    #[must_use]
    pub fn topics(&self) -> BTreeMap<String, Throughput> {
        self.observer.topics()
    }

    /// A dispatcher can be looked at from now on, until it is gone.
    pub(crate) fn show(&self, load: &Arc<Load>) {
        self.loads.add(load);
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }

    /// Wakes whoever waits in [`woken`](Self::woken), or the next one who does.
    pub fn wake(&self) {
        self.woken.notify_one();
    }

    /// Resolves after a [`wake`](Self::wake).
    pub async fn woken(&self) {
        self.woken.notified().await;
    }

    /// How the store learns of other processes' work.
    #[must_use]
    pub fn wakes(&self) -> Wakes {
        *self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A store says how that stands now. A change is logged.
    pub fn set_wakes(&self, now: Wakes) {
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *wakes, now) != now {
            self.observer.wakes_changed(now);
        }
    }

    /// A sender may send a message again for this long after it was handled.
    pub(crate) fn expect_redelivery(&self, horizon: Duration) {
        let mut longest = self.redelivery.lock().unwrap_or_else(PoisonError::into_inner);
        *longest = horizon.max(*longest);
    }

    /// Refuses to forget keys while their messages may come again.
    pub(crate) fn check_purge(&self, purge: &Purge) -> Result<()> {
        let horizon = *self.redelivery.lock().unwrap_or_else(PoisonError::into_inner);
        match purge.keys {
            Some(keys) if keys < horizon => Err(Error::limit(
                "purge.keys",
                format_args!(
                    "at least {horizon:?}, the redelivery horizon of the inbox, or messages would \
                     take effect twice"
                ),
                format_args!("{keys:?}"),
            )),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Hot>>> {
        self.hot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, hot: Hot) {
        self.lock().push(Arc::new(hot));
    }

    /// From here on its owner's dispatcher gets nothing from transactions that write later.
    pub(crate) fn deregister(&self, owner: OwnerToken) {
        self.lock().retain(|hot| hot.owner() != owner);
    }

    /// What a commit begins with: the dispatcher that has been here longest takes its messages.
    pub(crate) fn handover(&self) -> Handover {
        Handover::to(self.lock().first().map(Arc::clone))
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new("store", "outbox")
    }
}
