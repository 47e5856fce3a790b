//! Figures of a queue, counted in the background and shared by all who look.
//!
//! Counting costs what there is to count, so it runs seldom: every two seconds while somebody
//! looks, else as [`pace`] says, and never for more than a twentieth of the time. Requests read the
//! last sample.

mod count;
mod pace;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postroom_core::store::{
    AdminStore, BlockedKey, Failing, Node, PauseRecord, Stats, TopicStats, Wakes,
};
use postroom_core::{Result, Snapshot, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{Notify, SemaphorePermit, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::count::{Points, look_at};
pub(crate) use self::pace::{FEW, Turns};
use self::pace::{LENDS, News, Rhythm, UNWATCHED, WATCHED, freshness, happened};
use crate::metrics::{self, Gone};

/// A page waits for a fresh sample no longer than this.
const PATIENCE: Duration = Duration::from_millis(250);
/// A database that takes longer to count does not answer.
const LIMIT: Duration = Duration::from_secs(20);
/// The longest wait after a count that took long.
const LONGEST: Duration = Duration::from_mins(1);
/// A list of many boxes is content with samples of this age.
const GLANCED: Duration = Duration::from_secs(15);
/// How often a box that waits for long finds out what this process did with it.
const PATROL: Duration = Duration::from_secs(10);

/// What a queue looked like at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    /// The same for who measures how long ago that is.
    pub(crate) counted: Instant,
    /// Whether the database was asked at all.
    pub(crate) was_asked: bool,
    /// What the database knows; nothing while it does not answer.
    pub(crate) seen: Option<Seen>,
    /// What this process did.
    pub(crate) snapshot: Snapshot,
    pub(crate) wakes: Wakes,
    /// Oldest first; the last one is this sample.
    pub(crate) points: Vec<Point>,
}

impl Sample {
    /// Before the first look.
    fn empty(store: &dyn AdminStore) -> Self {
        Self {
            at: Timestamp::host_now(),
            counted: Instant::now(),
            was_asked: false,
            seen: None,
            snapshot: store.local().snapshot(),
            wakes: store.wakes(),
            points: Vec::new(),
        }
    }

    /// Whether it is an inbox that never had a message.
    pub(crate) fn is_unused(&self) -> bool {
        let counts = &self.snapshot.counts;
        let is_idle = counts.enqueued + counts.claimed + counts.duplicates == 0;
        let is_empty = |seen: &Seen| {
            let stats = &seen.stats;
            let messages = stats.ready + stats.waiting + stats.leased + stats.done + stats.dead;
            messages == 0 && seen.pauses.is_empty() && seen.nodes.is_empty()
        };
        self.snapshot.queue == "inbox"
            && is_idle
            && self.snapshot.dispatchers == 0
            && self.seen.as_ref().is_some_and(is_empty)
    }
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

impl Seen {
    /// Dead letters that wait for a person: discarded ones do not. Topics beyond those that are
    /// counted have none or few.
    pub(crate) fn dead_letters(&self) -> u64 {
        let by_topic: u64 = self.topics.iter().map(|topic| topic.dead).sum();
        by_topic.min(self.stats.dead)
    }
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

/// Counts until it is dropped, or its database is gone.
pub(crate) struct Sampler {
    latest: watch::Receiver<Arc<Sample>>,
    interest: Arc<Interest>,
    turns: Arc<Turns>,
    /// It ends by itself, so that it can say that its figures are no more.
    _task: DropGuard,
}

/// Who wants to know, and how soon.
struct Interest {
    /// When somebody looked.
    last: Mutex<Option<Instant>>,
    /// When the next count is to be there.
    due: Mutex<Instant>,
    asked: Notify,
    /// Whether the next count does not begin before its time, whoever asks.
    resting: AtomicBool,
}

impl Interest {
    fn new() -> Self {
        Self {
            last: Mutex::new(None),
            due: Mutex::new(Instant::now()),
            asked: Notify::new(),
            resting: AtomicBool::new(false),
        }
    }

    fn is_fresh(&self) -> bool {
        lock(&self.last).is_some_and(|last| last.elapsed() < UNWATCHED)
    }

    fn due(&self) -> Instant {
        *lock(&self.due)
    }

    /// Wants it at this time, or before.
    fn want_by(&self, time: Instant) {
        let mut due = lock(&self.due);
        *due = time.min(*due);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampler {
    /// Counts on this runtime until the box is gone.
    pub(crate) fn start(
        store: Arc<dyn AdminStore>,
        turns: &Arc<Turns>,
        runtime: &Handle,
        gone: CancellationToken,
        metrics: Arc<Gone>,
    ) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let (sender, latest) = watch::channel(Arc::new(Sample::empty(&*store)));
        let interest = Arc::new(Interest::new());
        let counting = Counting {
            store,
            latest: sender,
            interest: Arc::clone(&interest),
            turns: Arc::clone(turns),
            rhythm: Rhythm::new(NUMBER.fetch_add(1, Ordering::Relaxed)),
            points: Points::default(),
        };
        let task = gone.clone().drop_guard();
        runtime.spawn(async move {
            let store = Arc::clone(&counting.store);
            let _ = gone.run_until_cancelled(counting.run()).await;
            metrics.forget(&*store);
        });
        Self { latest, interest, turns: Arc::clone(turns), _task: task }
    }

    /// The last sample, at once, for who looks at something else and sees figures beside it: they
    /// are brought up to date when the next count is there.
    pub(crate) fn at_hand(&self) -> Arc<Sample> {
        self.look();
        self.last()
    }

    /// The last sample, and nothing comes of it: for who sums up what is known.
    pub(crate) fn last(&self) -> Arc<Sample> {
        Arc::clone(&self.latest.borrow())
    }

    /// The last sample, for who came to see figures; when that is old, the next one if it comes
    /// soon. A page of a large database must not wait for a count that will not begin.
    pub(crate) async fn latest(&self) -> Arc<Sample> {
        let mut latest = self.latest.clone();
        let age = latest.borrow_and_update().counted.elapsed();
        self.look();
        let is_old = age > 2 * WATCHED || latest.borrow().seen.is_none();
        if is_old && !self.interest.resting.load(Ordering::Relaxed) {
            let _ = timeout(PATIENCE, latest.changed()).await;
        }
        Arc::clone(&latest.borrow())
    }

    /// The last sample, at once. Monitoring that comes again and again is not somebody who looks:
    /// it has the queue counted when the sample is getting old, and not more often. The more boxes
    /// there are, the older it may get.
    pub(crate) fn peek(&self) -> Arc<Sample> {
        let latest = self.last();
        self.ask(&latest, freshness(self.turns.boxes(), latest.is_unused()));
        latest
    }

    /// The last sample, at once, for who looks at a list of many.
    pub(crate) fn glance(&self) -> Arc<Sample> {
        let latest = self.last();
        let is_unused = latest.is_unused();
        self.ask(&latest, if is_unused { freshness(self.turns.boxes(), true) } else { GLANCED });
        latest
    }

    /// Has it counted when this sample is older than that.
    fn ask(&self, sample: &Sample, fresh: Duration) {
        if sample.counted.elapsed() > fresh {
            self.interest.want_by(Instant::now());
            self.interest.asked.notify_one();
        }
    }

    /// For how long a count was due and did not come.
    pub(crate) fn late(&self) -> Duration {
        Instant::now().saturating_duration_since(self.interest.due())
    }

    /// Samples as they come, for who keeps looking.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Sample>> {
        self.look();
        self.latest.clone()
    }

    /// Somebody looks, or changed something: count soon.
    pub(crate) fn look(&self) {
        *lock(&self.interest.last) = Some(Instant::now());
        self.interest.want_by(Instant::now());
        self.interest.asked.notify_one();
    }
}

/// The task behind a sampler.
struct Counting {
    store: Arc<dyn AdminStore>,
    latest: watch::Sender<Arc<Sample>>,
    interest: Arc<Interest>,
    turns: Arc<Turns>,
    rhythm: Rhythm,
    points: Points,
}

impl Counting {
    async fn run(mut self) {
        loop {
            let (sample, took) = self.count().await;
            let rest = if sample.seen.is_some() { took * 20 } else { took };
            let before = Arc::clone(&self.latest.borrow());
            let wait = self.rhythm.next(News::of(&before, &sample), self.turns.boxes());
            metrics::record(&sample.snapshot, sample.seen.as_ref(), sample.wakes);
            *lock(&self.interest.due) = sample.counted + wait;
            self.interest.resting.store(true, Ordering::Relaxed);
            self.latest.send_replace(Arc::new(sample));
            // Not even a call for more makes it count all the time.
            sleep(WATCHED.max(rest.min(LONGEST))).await;
            self.interest.resting.store(false, Ordering::Relaxed);
            self.until_due().await;
        }
    }

    /// Counts, when it is its turn. Answers how long that took, too.
    async fn count(&mut self) -> (Sample, Duration) {
        let place = place(&self.turns, &self.interest).await;
        let began = Instant::now();
        let mut looking = std::pin::pin!(timeout(LIMIT, look_at(&*self.store)));
        let seen = match timeout(LENDS, &mut looking).await {
            Ok(seen) => seen,
            Err(_) => {
                drop(place);
                looking.await
            }
        };
        let took = began.elapsed();
        let snapshot = self.store.local().snapshot();
        let seen = seen.ok().and_then(Result::ok);
        if let Some(seen) = &seen {
            self.points.add(&seen.stats, &snapshot);
        }
        let sample = Sample {
            at: Timestamp::host_now(),
            counted: Instant::now(),
            was_asked: true,
            seen,
            snapshot,
            wakes: self.store.wakes(),
            points: self.points.all(),
        };
        (sample, took)
    }

    /// Until somebody looks or asks, or it is time.
    async fn until_due(&self) {
        let last = Arc::clone(&self.latest.borrow());
        loop {
            let (now, due) = (Instant::now(), self.interest.due());
            if self.interest.is_fresh() || now >= due {
                return;
            }
            if happened(&last.snapshot, &self.store.local().snapshot()) {
                self.interest.want_by(last.counted + UNWATCHED);
            }
            let until = self.interest.due().min(now + PATROL);
            let _ = timeout_at(until, self.interest.asked.notified()).await;
        }
    }
}

/// A place to count. Who waits for one among those that nobody looks at goes over to the others
/// when somebody does.
async fn place<'a>(turns: &'a Turns, interest: &Interest) -> Option<SemaphorePermit<'a>> {
    {
        let mut quiet = std::pin::pin!(turns.place(false));
        while !interest.is_fresh() {
            tokio::select! {
                place = &mut quiet => return place,
                () = interest.asked.notified() => {}
            }
        }
    }
    turns.place(true).await
}
