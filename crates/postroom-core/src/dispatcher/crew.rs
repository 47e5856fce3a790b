//! As many workers as there is work for: an idle dispatcher has one, a busy one up to its limit.
//!
//! A process may serve hundreds of stores with hundreds of workers each, and nearly all of them
//! would wait for nothing. The one that takes work while nobody else waits for some calls another;
//! who waited for long leaves, unless it is the last one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio_util::task::TaskTracker;

use super::Engine;
use super::work::{Finished, Queues};

/// Who had nothing to do for so long leaves.
pub(super) const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// How many workers there are, and how many of them wait.
#[derive(Debug)]
pub(super) struct Crew {
    most: usize,
    all: AtomicUsize,
    waiting: AtomicUsize,
}

impl Crew {
    pub(super) fn new(most: usize) -> Self {
        Self { most, all: AtomicUsize::new(0), waiting: AtomicUsize::new(0) }
    }

    /// One more, who begins by waiting.
    pub(super) fn join(&self) {
        self.all.fetch_add(1, Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// A worker got work. Answers whether another one is needed, who then counts as waiting.
    pub(super) fn begin(&self) -> bool {
        let others = self.waiting.fetch_sub(1, Ordering::SeqCst) - 1;
        if others > 0 {
            return false;
        }
        let more = |all: usize| (all < self.most).then_some(all + 1);
        let needed = self.all.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok();
        if needed {
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        needed
    }

    /// A worker is done and waits again.
    pub(super) fn end(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// A worker that waits may leave if another one does, too.
    pub(super) fn leave(&self) -> bool {
        let fewer = |waiting: usize| (waiting > 1).then(|| waiting - 1);
        let leaves = self.waiting.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok();
        if leaves {
            self.all.fetch_sub(1, Ordering::SeqCst);
        }
        leaves
    }
}

/// Where workers come from, and what they work with.
#[derive(Clone, Debug)]
pub(super) struct Bench {
    pub(super) tasks: TaskTracker,
    pub(super) queues: Arc<Mutex<Queues>>,
    pub(super) finished: mpsc::Sender<Vec<Finished>>,
}

impl Engine {
    /// Starts a worker that the crew counts already.
    pub(super) fn call_worker(self: &Arc<Self>, bench: &Bench) {
        bench.tasks.spawn(Arc::clone(self).work(bench.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_waits_while_others_work_up_to_the_limit() {
        let crew = Crew::new(3);
        crew.join();
        assert!(crew.begin(), "the first is busy: a second is called");
        assert!(crew.begin(), "and a third");
        assert!(!crew.begin(), "there are no more");
        crew.end();
        assert!(!crew.leave(), "somebody has to wait");
        crew.end();
        assert!(crew.leave());
        assert!(!crew.begin() || crew.all.load(Ordering::SeqCst) == 3);
    }
}
