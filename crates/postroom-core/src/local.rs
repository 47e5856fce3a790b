//! Where publishers and dispatchers of one process meet.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::dispatcher::hot::{Handover, Hot};
use crate::ids::OwnerToken;
use crate::observe;
use crate::store::Wakes;

/// What all handles of one store share within a process: the wake-up, and the dispatchers that run
/// here and take messages right from a commit.
///
/// A store keeps one, shared by its clones, and gives it out in
/// [`Store::local`](crate::store::Store::local). There is nothing else to do with it.
#[derive(Debug, Default)]
pub struct Local {
    woken: Notify,
    /// In the order in which they started.
    hot: Mutex<Vec<Arc<Hot>>>,
    wakes: Mutex<Wakes>,
}

impl Local {
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
            observe::wakes_changed(now);
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
