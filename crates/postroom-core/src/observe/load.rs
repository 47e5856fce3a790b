//! How busy the dispatchers of this process are, for whoever looks at their store.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Depth, Snapshot};

/// How busy one dispatcher is.
#[derive(Debug)]
pub(crate) struct Load {
    /// A permit per message that may come right from a commit.
    pub(crate) hot: Places,
    /// A permit per claimed item that may be in this process.
    pub(crate) cold: Places,
    /// Deliveries that have begun and not ended.
    pub(crate) running: AtomicUsize,
    began: Instant,
    /// Milliseconds from then to the last sign of life.
    beat: AtomicU64,
}

/// The places of a queue; those without a permit are taken.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) free: Arc<Semaphore>,
    size: usize,
}

impl Places {
    fn new(size: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(size)), size }
    }

    fn depth(&self) -> Depth {
        let size = self.size;
        Depth { held: size - self.free.available_permits().min(size), size }
    }
}

impl Load {
    pub(crate) fn new(hot: usize, cold: usize) -> Self {
        Self {
            hot: Places::new(hot),
            cold: Places::new(cold),
            running: AtomicUsize::new(0),
            began: Instant::now(),
            beat: AtomicU64::new(0),
        }
    }

    /// It is alive.
    pub(crate) fn beat(&self) {
        self.beat.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, mut snapshot: Snapshot) -> Snapshot {
        let sum = |depth: Option<Depth>, more: Depth| {
            let Depth { held, size } = depth.unwrap_or(Depth { held: 0, size: 0 });
            Some(Depth { held: held + more.held, size: size + more.size })
        };
        let beat = Duration::from_millis(self.beat.load(Ordering::Relaxed));
        let since = self.began.elapsed().saturating_sub(beat);
        snapshot.hot = sum(snapshot.hot, self.hot.depth());
        snapshot.cold = sum(snapshot.cold, self.cold.depth());
        let running = self.running.load(Ordering::Relaxed);
        snapshot.running = Some(snapshot.running.unwrap_or(0) + running);
        snapshot.dispatchers += 1;
        snapshot.beat = snapshot.beat.max(Some(since));
        snapshot
    }
}

/// The dispatchers on one store. They are forgotten when they end.
#[derive(Debug, Default)]
pub(crate) struct Loads(Mutex<Vec<Weak<Load>>>);

impl Loads {
    pub(crate) fn add(&self, load: &Arc<Load>) {
        let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loads.retain(|load| load.strong_count() > 0);
        loads.push(Arc::downgrade(load));
    }

    pub(crate) fn add_to(&self, snapshot: Snapshot) -> Snapshot {
        let loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loads.iter().filter_map(Weak::upgrade).fold(snapshot, |sum, load| load.add_to(sum))
    }
}
