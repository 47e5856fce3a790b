//! How fast work goes, and when the next retry of this process is due.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The recent rate of finished deliveries.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    finished: usize,
    per_second: Option<f64>,
}

// Long enough to mean something, short enough to follow a change.
const WINDOW: Duration = Duration::from_millis(200);

impl Pace {
    pub(super) fn add(&self, finished: usize) {
        let mut window = lock(&self.0);
        let now = Instant::now();
        let since = *window.since.get_or_insert(now);
        window.finished += finished;
        let passed = now - since;
        if passed >= WINDOW {
            window.per_second = Some(window.finished as f64 / passed.as_secs_f64());
            window.finished = 0;
            window.since = Some(now);
        }
    }

    /// Unknown until the first window is over.
    pub(super) fn per_second(&self) -> Option<f64> {
        lock(&self.0).per_second
    }
}

/// The next retries that this process has asked for.
#[derive(Debug, Default)]
pub(super) struct NextRetry {
    times: Mutex<BTreeSet<Instant>>,
    changed: Notify,
}

// Further ones are found by polling.
const MOST_TIMES: usize = 1_000;

impl NextRetry {
    pub(super) fn at(&self, time: Instant) {
        let mut times = lock(&self.times);
        times.insert(time);
        if times.first() == Some(&time) {
            self.changed.notify_one();
        }
        if times.len() > MOST_TIMES {
            times.pop_last();
        }
    }

    /// Forgets what is due by now: the claim that follows sees it.
    pub(super) fn forget_due(&self) {
        let mut times = lock(&self.times);
        let later = times.split_off(&(Instant::now() + Duration::from_nanos(1)));
        *times = later;
    }

    /// The next one.
    pub(super) fn first(&self) -> Option<Instant> {
        lock(&self.times).first().copied()
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
