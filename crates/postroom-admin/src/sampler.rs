//! Figures of a queue, counted in the background and shared by all who look.
//!
//! Counting costs what there is to count, so it runs seldom: every two seconds while somebody
//! looks, every half a minute otherwise, and never for more than a twentieth of the time. Requests
//! read the last sample.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::store::{
    AdminStore, BlockedKey, Failing, Node, PauseRecord, Stats, TopicStats, Wakes,
};
use postroom_core::{Result, Snapshot, Timestamp};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::metrics;

const WATCHED: Duration = Duration::from_secs(2);
const UNWATCHED: Duration = Duration::from_secs(30);
/// A page waits for a fresh sample no longer than this.
const PATIENCE: Duration = Duration::from_millis(250);
/// A database that takes longer to count does not answer.
const LIMIT: Duration = Duration::from_secs(20);
/// The longest wait after a count that took long.
const LONGEST: Duration = Duration::from_mins(1);
/// Monitoring looks all the time; it is content with a sample of this age.
const RECENT: Duration = Duration::from_secs(5);
/// Points for charts: ten minutes while somebody looks.
const POINTS: usize = 300;
const MOST_TOPICS: u32 = 200;
const MOST_KEYS: u32 = 200;
const MOST_FAILING: u32 = 2_000;

/// What a queue looked like at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    /// What the database knows; nothing while it does not answer.
    pub(crate) seen: Option<Seen>,
    /// What this process did.
    pub(crate) snapshot: Snapshot,
    pub(crate) wakes: Wakes,
    /// Oldest first; the last one is this sample.
    pub(crate) points: Vec<Point>,
}

/// What the database knows.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) stats: Stats,
    pub(crate) nodes: Vec<Node>,
    pub(crate) topics: Vec<TopicStats>,
    pub(crate) failing: Vec<Failing>,
    pub(crate) blocked: Vec<BlockedKey>,
    pub(crate) pauses: Vec<PauseRecord>,
}

/// One point of the charts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: Timestamp,
    /// Per second since the point before.
    pub(crate) delivered: f64,
    pub(crate) failed: f64,
    pub(crate) written: f64,
    pub(crate) backlog: u64,
    pub(crate) oldest: Duration,
}

/// Counts until it is dropped.
pub(crate) struct Sampler {
    latest: watch::Receiver<Arc<Sample>>,
    interest: Arc<Interest>,
    _task: AbortOnDropHandle<()>,
}

struct Interest {
    last: Mutex<Option<Instant>>,
    asked: Notify,
    /// Whether the next count does not begin before its time, whoever asks.
    resting: AtomicBool,
}

impl Interest {
    fn is_fresh(&self) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < UNWATCHED)
    }
}

impl Sampler {
    pub(crate) fn start(store: Arc<dyn AdminStore>) -> Self {
        let empty = Sample {
            at: Timestamp::host_now(),
            seen: None,
            snapshot: store.local().snapshot(),
            wakes: store.wakes(),
            points: Vec::new(),
        };
        let (sender, latest) = watch::channel(Arc::new(empty));
        let interest = Arc::new(Interest {
            last: Mutex::new(None),
            asked: Notify::new(),
            resting: AtomicBool::new(false),
        });
        let task = tokio::spawn(run(store, sender, Arc::clone(&interest)));
        Self { latest, interest, _task: AbortOnDropHandle::new(task) }
    }

    /// The last sample, at once, for who looks at something else and sees figures beside it: they
    /// are brought up to date when the next count is there.
    pub(crate) fn at_hand(&self) -> Arc<Sample> {
        self.look();
        Arc::clone(&self.latest.borrow())
    }

    /// The last sample, for who came to see figures; when that is old, the next one if it comes
    /// soon. A page of a large database must not wait for a count that will not begin.
    pub(crate) async fn latest(&self) -> Arc<Sample> {
        let mut latest = self.latest.clone();
        let age = Timestamp::host_now().since(latest.borrow_and_update().at);
        self.look();
        let is_old = age > 2 * WATCHED || latest.borrow().seen.is_none();
        if is_old && !self.interest.resting.load(Ordering::Relaxed) {
            let _ = timeout(PATIENCE, latest.changed()).await;
        }
        Arc::clone(&latest.borrow())
    }

    /// The last sample, at once. Monitoring that comes again and again is not somebody who looks:
    /// it has the queue counted when the sample is getting old, and not more often.
    pub(crate) fn peek(&self) -> Arc<Sample> {
        let latest = Arc::clone(&self.latest.borrow());
        if Timestamp::host_now().since(latest.at) > RECENT {
            self.interest.asked.notify_one();
        }
        latest
    }

    /// Samples as they come, for who keeps looking.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Sample>> {
        self.look();
        self.latest.clone()
    }

    /// Somebody looks, or changed something: count soon.
    pub(crate) fn look(&self) {
        *self.interest.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.interest.asked.notify_one();
    }
}

async fn run(
    store: Arc<dyn AdminStore>,
    latest: watch::Sender<Arc<Sample>>,
    interest: Arc<Interest>,
) {
    let mut points = VecDeque::with_capacity(POINTS);
    let mut before: Option<Totals> = None;
    loop {
        let began = Instant::now();
        let seen = timeout(LIMIT, look_at(&*store)).await;
        let took = began.elapsed();
        let snapshot = store.local().snapshot();
        let seen = seen.ok().and_then(Result::ok);
        if let Some(seen) = &seen {
            let now = Totals::of(&seen.stats, &snapshot);
            if points.len() == POINTS {
                points.pop_front();
            }
            points.push_back(now.since(before.as_ref(), &seen.stats));
            before = Some(now);
        }
        let sample = Sample {
            at: Timestamp::host_now(),
            seen,
            snapshot,
            wakes: store.wakes(),
            points: points.iter().copied().collect(),
        };
        metrics::record(&sample);
        let known = sample.seen.is_some();
        interest.resting.store(true, Ordering::Relaxed);
        latest.send_replace(Arc::new(sample));
        // Not even a call for more makes it count all the time.
        let rest = if known { took * 20 } else { took };
        sleep(WATCHED.max(rest.min(LONGEST))).await;
        interest.resting.store(false, Ordering::Relaxed);
        if !interest.is_fresh() {
            let _ = timeout(UNWATCHED, interest.asked.notified()).await;
        }
    }
}

async fn look_at(store: &dyn AdminStore) -> Result<Seen> {
    Ok(Seen {
        stats: store.stats().await?,
        nodes: store.nodes().await?,
        topics: store.topics(MOST_TOPICS).await?,
        failing: store.failing(MOST_FAILING).await?,
        blocked: store.blocked_keys(MOST_KEYS).await?,
        pauses: store.pauses().await?,
    })
}

/// Sums that only grow, but for what is purged.
struct Totals {
    at: Timestamp,
    delivered: u64,
    failed: u64,
    all: u64,
}

impl Totals {
    fn of(stats: &Stats, snapshot: &Snapshot) -> Self {
        Self {
            at: Timestamp::host_now(),
            // What is not kept is only known to the process that delivered it.
            delivered: stats.done.max(snapshot.counts.done),
            failed: snapshot.counts.failed + snapshot.counts.dead,
            all: stats.ready + stats.waiting + stats.leased + stats.done + stats.dead,
        }
    }

    fn since(&self, before: Option<&Self>, stats: &Stats) -> Point {
        let span = before.map_or(0.0, |before| self.at.since(before.at).as_secs_f64());
        let rate = |now: u64, then: fn(&Self) -> u64| match before {
            Some(before) if span > 0.0 => now.saturating_sub(then(before)) as f64 / span,
            _ => 0.0,
        };
        Point {
            at: self.at,
            delivered: rate(self.delivered, |totals| totals.delivered),
            failed: rate(self.failed, |totals| totals.failed),
            written: rate(self.all, |totals| totals.all),
            backlog: stats.ready + stats.waiting + stats.leased,
            oldest: stats.oldest_ready.unwrap_or_default(),
        }
    }
}
