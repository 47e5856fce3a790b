//! The dispatcher: claims messages, hands them to a sink, and settles what came of it.
//!
//! One poller claims no more than there is room for; what is committed in this process comes
//! without a claim, as far as there is room for that; workers deliver; one settler writes outcomes
//! in groups; one task renews leases. Places are conserved on every path: an item gives its place
//! back when its outcome is settled, and not before.

mod config;
mod crew;
mod done;
pub(crate) mod hot;
mod intercept;
mod keep;
mod leases;
mod left;
mod limits;
mod order;
mod pace;
mod pause;
mod place;
mod poll;
mod report;
mod settle;
mod topics;
mod visits;
mod work;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use config::DispatcherConfig;
use crew::{Bench, Crew};
use done::Done;
use hot::Hot;
use leases::Leases;
use left::Left;
use limits::Limits;
use order::Keys;
use pace::{NextRetry, Pace};
use pause::Pauses;
pub use topics::{Rate, TopicConfig};
use visits::Visits;
use work::{Finished, Job, Queues};

use crate::error::Result;
use crate::fleet::room::Seat;
use crate::ids::OwnerToken;
use crate::observe::{Load, Observer, Snapshot};
use crate::retry::Retry;
use crate::sink::{Interceptor, Sink};
use crate::store::Store;
use crate::work_queue::WorkQueue;

/// Delivers the messages of one store to one sink. Build it, [`start`](Self::start) it, and
/// [`shutdown`](Running::shutdown) what that gives you.
///
/// What is published in this process through the same store handle, or a clone of it, comes right
/// from its commit, without a claim; see [`OutboxTransaction`](crate::OutboxTransaction). Of
/// several dispatchers on one handle the one that started first gets it. Such messages go before
/// claimed ones, but for every fourth turn.
///
/// Messages with an ordering key are handled one at a time per key, in order; see
/// [`store::order`](crate::store::order).
pub struct Dispatcher {
    store: Arc<dyn Store>,
    sink: Arc<dyn Sink>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    config: DispatcherConfig,
    seat: Option<Seat>,
}

impl Dispatcher {
    /// A dispatcher with default settings.
    pub fn new(store: Arc<dyn Store>, sink: impl Sink) -> Self {
        let (sink, config) = (Arc::new(sink), DispatcherConfig::default());
        Self { store, sink, interceptors: Vec::new(), config, seat: None }
    }

    /// Has every message looked at by all of these.
    pub(crate) fn intercepted_by(mut self, interceptors: Vec<Arc<dyn Interceptor>>) -> Self {
        self.interceptors.extend(interceptors);
        self
    }

    /// Claims when the seat gives it a turn.
    pub(crate) fn seated(mut self, seat: Seat) -> Self {
        self.seat = Some(seat);
        self
    }

    /// Has every message looked at before and after it is handled.
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Other settings.
    #[must_use]
    pub fn config(mut self, config: DispatcherConfig) -> Self {
        self.config = config;
        self
    }

    /// Starts it on the current tokio runtime.
    ///
    /// # Errors
    /// `Invalid` when a setting is out of bounds; then nothing was started.
    pub fn start(self) -> Result<Running> {
        self.config.validate()?;
        if let Some(purge) = &self.config.purge {
            self.store.local().check_purge(purge)?;
        }
        let retry =
            Retry { max_attempts: self.config.most_attempts(), ..self.config.retry.clone() };
        let queue = WorkQueue::new(self.store).retry(retry);
        let engine = Arc::new(Engine {
            queue,
            sink: self.sink,
            interceptors: self.interceptors,
            owner: OwnerToken::random(),
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            leases: Arc::default(),
            keys: Keys::default(),
            done: Done::default(),
            gone: Mutex::new(false),
            load: Arc::new(Load::new(self.config.hot_queue, self.config.cold_queue)),
            claims: AtomicUsize::new(0),
            visits: Visits::default(),
            crew: Crew::new(self.config.workers),
            freed: Notify::new(),
            pace: Pace::default(),
            next_retry: NextRetry::default(),
            pauses: Pauses::default(),
            limits: Arc::new(Limits::new(&self.config)),
            left: Left::default(),
            seat: self.seat,
            config: self.config,
        });
        Ok(Running::spawn(engine))
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What the tasks of a dispatcher share.
struct Engine {
    queue: WorkQueue,
    sink: Arc<dyn Sink>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    config: DispatcherConfig,
    owner: OwnerToken,
    /// Claim nothing more, start nothing more.
    stop: CancellationToken,
    /// Cut what runs.
    kill: CancellationToken,
    leases: Arc<Leases>,
    keys: Keys,
    done: Done,
    /// Whether its slots were given back. Locked by whoever reports, so that nothing is heard of it
    /// after that.
    gone: Mutex<bool>,
    load: Arc<Load>,
    /// Claims so far.
    claims: AtomicUsize,
    visits: Visits,
    crew: Crew,
    /// Told when there may be room for more: items left this process, or went to wait in line.
    freed: Notify,
    pace: Pace,
    next_retry: NextRetry,
    pauses: Pauses,
    limits: Arc<Limits>,
    left: Left,
    /// Its part in the room that it shares with other stores' dispatchers.
    seat: Option<Seat>,
}

impl Engine {
    fn observer(&self) -> &Observer {
        self.queue.store().local().observer()
    }

    /// Takes nothing more, from now on and in this order: what is committed meanwhile comes back.
    fn halt(&self) {
        self.queue.store().local().deregister(self.owner);
        self.stop.cancel();
    }

    /// Lets others have its share of the ordered messages at once rather than after its lease.
    async fn leave(&self) {
        let leaving = async {
            let mut gone = self.gone.lock().await;
            if !std::mem::replace(&mut *gone, true) {
                // Nobody waits for its answer but us: others have the rest of the lease to wait.
                let _ = self.queue.store().leave(self.owner).await;
            }
        };
        let _ = timeout(Duration::from_secs(1), leaving).await;
    }

    /// Lets publishers of this process in, unless that is turned off.
    fn open(&self, jobs: mpsc::Sender<Job>, finished: mpsc::WeakSender<Vec<Finished>>) {
        let size = self.config.hot_queue;
        if size == 0 {
            return;
        }
        self.queue.store().local().register(Hot {
            owner: self.owner,
            lease: self.config.lease,
            margin: self.config.margin(),
            places: Arc::clone(&self.load.hot.free),
            size,
            jobs,
            finished,
            leases: Arc::clone(&self.leases),
            sink: Arc::clone(&self.sink),
            limits: Arc::clone(&self.limits),
            observer: self.observer().clone(),
            full: AtomicBool::new(false),
        });
    }
}

/// A dispatcher at work. Dropping it stops it in the background, as a shutdown without waiting.
#[must_use = "dropping it stops the dispatcher"]
pub struct Running {
    engine: Arc<Engine>,
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Running {
    fn spawn(engine: Arc<Engine>) -> Self {
        let tasks = TaskTracker::new();
        let end = CancellationToken::new();
        let (cold_size, hot_size) = (engine.config.cold_queue, engine.config.hot_queue.max(1));
        let (cold_sender, cold) = mpsc::channel(cold_size);
        let (hot_sender, hot) = mpsc::channel(hot_size);
        // As large as both, so that whoever has a place never waits.
        let (finished_sender, finished) = mpsc::channel(cold_size + hot_size);
        tasks.spawn(Arc::clone(&engine).settle(finished, cold_sender.downgrade()));
        let queues = Arc::new(Mutex::new(Queues { hot, cold, turn: 0, aside: VecDeque::new() }));
        let bench = Bench { tasks: tasks.clone(), queues, finished: finished_sender.clone() };
        engine.crew.join();
        engine.call_worker(&bench);
        // One more at the end, so that giving back what has not begun waits for nothing that has.
        let last = Arc::clone(&engine);
        tasks.spawn(async move {
            last.stop.cancelled().await;
            last.crew.join();
            last.work(bench).await;
        });
        let waiting = [cold_sender.downgrade(), hot_sender.downgrade()];
        tasks.spawn(Arc::clone(&engine).start_waiting(waiting, finished_sender.clone()));
        tasks.spawn(Arc::clone(&engine).poll(cold_sender));
        tasks.spawn(Arc::clone(&engine).keep_house());
        engine.queue.store().local().show(&engine.load);
        engine.open(hot_sender, finished_sender.downgrade());
        let (renewer, until) = (Arc::clone(&engine), end.clone());
        tokio::spawn(async move { renewer.renew_leases(until).await });
        tokio::spawn(Arc::clone(&engine).watch_pauses(end.clone()));
        tokio::spawn(Arc::clone(&engine).report(end.clone()));
        tasks.close();
        Self { engine, tasks, end }
    }

    /// The owner under which it holds leases.
    #[must_use]
    pub fn owner(&self) -> OwnerToken {
        self.engine.owner
    }

    /// The figures of this process for this store, and how full this dispatcher's queues are.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.engine.load.add_to(self.engine.observer().snapshot())
    }

    /// Whether it holds nothing at all: every place is free, no lease and no key is kept. For tests
    /// that look for leaks.
    #[doc(hidden)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let engine = &self.engine;
        engine.load.cold.free.available_permits() == engine.config.cold_queue
            && engine.load.hot.free.available_permits() == engine.config.hot_queue
            && engine.load.running.load(Ordering::Relaxed) == 0
            && engine.leases.count() == 0
            && engine.keys.is_empty()
    }

    /// Stops: takes nothing more, gives back what has not begun, lets what runs finish within
    /// `grace`, then cuts it (which costs no attempt), and settles everything. A commit that is
    /// under way and counts on this dispatcher is waited for as well; what it publishes is given
    /// back. Answers whether all that ended in time.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it stopping in the background.
    pub async fn shutdown(self, grace: Duration) -> bool {
        self.engine.halt();
        let clean = timeout(grace, self.tasks.wait()).await.is_ok();
        if !clean {
            self.engine.kill.cancel();
            // What is left is one settle; a database that is away must not hold us for ever.
            let _ = timeout(Duration::from_secs(5), self.tasks.wait()).await;
        }
        // After a shutdown that took all its time this happens behind its back, if at all.
        if clean {
            self.engine.leave().await;
        }
        clean
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.halt();
        let (tasks, end) = (self.tasks.clone(), self.end.clone());
        let engine = Arc::clone(&self.engine);
        // Leases are renewed until the last task is done with them.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tasks.wait().await;
                engine.leave().await;
                end.cancel();
            });
        } else {
            end.cancel();
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("owner", &self.engine.owner).finish_non_exhaustive()
    }
}
