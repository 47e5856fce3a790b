//! The dispatcher: claims messages, hands them to a sink, and settles what came of it.
//!
//! One poller claims no more than there is room for; workers deliver; one settler writes outcomes
//! in groups; one task renews leases. Places are conserved on every path: an item gives its place
//! back when its outcome is settled, and not before.

mod config;
mod leases;
mod pace;
mod poll;
mod settle;
mod work;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use config::DispatcherConfig;
use leases::Leases;
use pace::{NextRetry, Pace};
use work::{Finished, Job};

use crate::error::Result;
use crate::ids::OwnerToken;
use crate::sink::Sink;
use crate::store::Store;
use crate::work_queue::WorkQueue;

/// Delivers the messages of one store to one sink. Build it, [`start`](Self::start) it, and
/// [`shutdown`](Running::shutdown) what that gives you.
///
/// Messages with an ordering key are not claimed yet.
pub struct Dispatcher {
    store: Arc<dyn Store>,
    sink: Arc<dyn Sink>,
    config: DispatcherConfig,
}

impl Dispatcher {
    /// A dispatcher with default settings.
    pub fn new(store: Arc<dyn Store>, sink: impl Sink) -> Self {
        Self { store, sink: Arc::new(sink), config: DispatcherConfig::default() }
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
        let queue = WorkQueue::new(self.store).retry(self.config.retry.clone());
        let engine = Arc::new(Engine {
            queue,
            sink: self.sink,
            owner: OwnerToken::random(),
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
            leases: Leases::default(),
            room: Arc::new(Semaphore::new(self.config.cold_queue)),
            running: AtomicUsize::new(0),
            claims: AtomicUsize::new(0),
            settled: Notify::new(),
            pace: Pace::default(),
            next_retry: NextRetry::default(),
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
    config: DispatcherConfig,
    owner: OwnerToken,
    /// Claim nothing more, start nothing more.
    stop: CancellationToken,
    /// Cut what runs.
    kill: CancellationToken,
    leases: Leases,
    /// A permit per item that may be in this process.
    room: Arc<Semaphore>,
    /// Deliveries that have begun and not ended.
    running: AtomicUsize,
    /// Claims so far.
    claims: AtomicUsize,
    /// Told when items left this process.
    settled: Notify,
    pace: Pace,
    next_retry: NextRetry,
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
        let (job_sender, jobs) = mpsc::channel(engine.config.cold_queue);
        let (finished_sender, finished) = mpsc::channel(engine.config.cold_queue);
        tasks.spawn(Arc::clone(&engine).poll(job_sender));
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..engine.config.workers {
            let work = Arc::clone(&engine).work(Arc::clone(&jobs), finished_sender.clone());
            tasks.spawn(work);
        }
        tasks.spawn(Arc::clone(&engine).settle(finished));
        let (renewer, until) = (Arc::clone(&engine), end.clone());
        tokio::spawn(async move { renewer.renew_leases(until).await });
        tasks.close();
        Self { engine, tasks, end }
    }

    /// The owner under which it holds leases.
    #[must_use]
    pub fn owner(&self) -> OwnerToken {
        self.engine.owner
    }

    /// Stops: claims nothing more, gives back what has not begun, lets what runs finish within
    /// `grace`, then cuts it (which costs no attempt), and settles everything. Answers whether
    /// nothing was cut.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it stopping in the background.
    pub async fn shutdown(self, grace: Duration) -> bool {
        self.engine.stop.cancel();
        let clean = timeout(grace, self.tasks.wait()).await.is_ok();
        if !clean {
            self.engine.kill.cancel();
            // What is left is one settle; a database that is away must not hold us for ever.
            let _ = timeout(Duration::from_secs(5), self.tasks.wait()).await;
        }
        clean
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.stop.cancel();
        let (tasks, end) = (self.tasks.clone(), self.end.clone());
        // Leases are renewed until the last task is done with them.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tasks.wait().await;
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
