//! The child's side: a dispatcher whose handlers write down what they do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{BoxFuture, Claimed, Settled, TransactionalStore};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, HandlerResult, Handlers, Lease,
    Message, Outbox, Result, Retry,
};
use tokio::signal::unix::{SignalKind, signal};

use super::fate::Fate;
use super::ledger::Ledger;
use crate::around::{Around, Wrapped};

/// What a worker process is told.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Where the database is, in the words of the test that opens it.
    pub address: String,
    /// Where the ledger and the gates are.
    pub folder: PathBuf,
    /// Its name in the ledger.
    pub name: String,
    /// How long it holds what it takes.
    pub lease: Duration,
    /// Deliveries at the same time.
    pub workers: usize,
    /// Whether it publishes too, for its own hot queue.
    pub publishes: bool,
    /// What becomes of it in the middle of an [effect](super::take_effect).
    pub fate: Option<Fate>,
}

const VARIABLE: &str = "POSTROOM_TEST_WORKER";

/// Bad attempts after which a message is dead in a worker process.
pub(super) const MAX_ATTEMPTS: u32 = 3;
/// Places for claimed messages, and as many for hot ones.
pub(super) const PLACES: usize = 64;
/// How long a worker that is told to end waits for its handlers.
pub(super) const GRACE: Duration = Duration::from_secs(10);

impl Orders {
    /// The orders in the environment: none in a process that is not a worker.
    ///
    /// # Panics
    /// When they can not be read.
    #[must_use]
    pub fn given() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        let lines: Vec<_> = text.lines().collect();
        let [address, folder, name, lease, workers, publishes, fate] = lines[..] else {
            panic!("{VARIABLE} has seven lines, not {text:?}");
        };
        Some(Self {
            address: address.to_owned(),
            folder: folder.into(),
            name: name.to_owned(),
            lease: Duration::from_millis(lease.parse().expect("milliseconds")),
            workers: workers.parse().expect("a number"),
            publishes: publishes.parse().expect("true or false"),
            fate: Fate::read(fate),
        })
    }

    pub(super) fn variable(&self) -> (&'static str, String) {
        let Self { address, folder, name, lease, workers, publishes, fate } = self;
        let (folder, lease) = (folder.display(), lease.as_millis());
        let fate = fate.as_ref().map_or("-".to_owned(), ToString::to_string);
        let place = format!("{address}\n{folder}\n{name}");
        (VARIABLE, format!("{place}\n{lease}\n{workers}\n{publishes}\n{fate}"))
    }
}

/// Carries the orders out until SIGTERM, then shuts down gracefully. Ends at once when the process
/// that gave the orders is gone, however it went.
///
/// # Panics
/// When the shutdown had to cut something.
pub async fn work<S: TransactionalStore>(store: Arc<S>, orders: Orders) {
    std::thread::spawn(end_with_the_parent);
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be heard");
    let ledger = Arc::new(Ledger::open(&orders.folder, &orders.name));
    let config = DispatcherConfig {
        workers: orders.workers,
        lease: orders.lease,
        handler_timeout: orders.lease * 9 / 10,
        cold_queue: PLACES,
        hot_queue: PLACES,
        poll_interval: Duration::from_millis(20),
        retry: Retry {
            backoff: Backoff::Fixed(Duration::from_millis(5)),
            max_attempts: MAX_ATTEMPTS,
        },
        ..DispatcherConfig::default()
    };
    let watch = Watch { ledger: Arc::clone(&ledger), lease: orders.lease };
    let watched = Wrapped::new(Arc::clone(&store), watch);
    let handlers = handlers(&ledger, &orders.folder);
    let dispatcher = Dispatcher::new(Arc::new(watched), handlers).config(config);
    let running = dispatcher.start().expect("legal settings");
    ledger.note("up", running.owner());
    let stop = Arc::new(AtomicBool::new(!orders.publishes));
    let quiet = orders.folder.join("quiet");
    let publisher =
        tokio::spawn(publish(Outbox::new(store), Arc::clone(&ledger), quiet, Arc::clone(&stop)));
    tokio::spawn(note_pauses(Arc::clone(&ledger), orders.lease));
    terminate.recv().await;
    stop.store(true, Ordering::Relaxed);
    // A commit that is under way meets the shutdown.
    let (clean, _) = tokio::join!(running.shutdown(GRACE), publisher);
    assert!(clean, "nothing had to be cut");
}

pub(super) fn end_with_the_parent() {
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    std::process::abort();
}

/// Publishes a few at a time until it is told to stop, here or for all by the file `quiet`. An
/// error is a publisher's business: what was not confirmed is not in the ledger.
async fn publish<S: TransactionalStore>(
    outbox: Outbox<S>,
    ledger: Arc<Ledger>,
    quiet: PathBuf,
    stop: Arc<AtomicBool>,
) {
    while !stop.load(Ordering::Relaxed) && !quiet.exists() {
        let some = (0..3).map(|_| Message::builder("quick"));
        if let Ok(published) = outbox.publish_all(some).await {
            published.iter().for_each(|published| ledger.note("committed", published.id));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn handlers(ledger: &Arc<Ledger>, folder: &Path) -> Handlers {
    let (ledger, folder) = (Arc::clone(ledger), folder.to_owned());
    Handlers::new().all(move |delivery: Delivery| {
        let (ledger, folder) = (Arc::clone(&ledger), folder.clone());
        async move {
            let message = delivery.message();
            let (id, key) = (message.id(), message.ordering_key());
            let key = key.map_or("-".to_owned(), ToString::to_string);
            let text = String::from_utf8_lossy(message.payload()).into_owned();
            let n: usize = text.parse().unwrap_or_default();
            let attempt = delivery.attempt();
            ledger.note("start", format_args!("{id} {key} {n} {attempt}"));
            let gates = [folder.join(&text), folder.join(format!("{text}.{}", ledger.worker))];
            let result = handle(message.topic().as_str(), &gates, n, attempt).await;
            let how = if result.is_ok() { "well" } else { "badly" };
            ledger.note("end", format_args!("{id} {how}"));
            result
        }
    })
}

async fn handle(topic: &str, gates: &[PathBuf], n: usize, attempt: u32) -> HandlerResult {
    match topic {
        "quick" => tokio::time::sleep(Duration::from_millis(n as u64 % 3)).await,
        "slow" => tokio::time::sleep(Duration::from_millis(300)).await,
        // Until a gate opens, for all or for this worker. Without a way out for the dispatcher: it
        // can not cut a call that does not wait.
        "hold" => {
            while !gates.iter().any(|gate| gate.exists()) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        "flaky" if attempt as usize <= failures(n) => return Err(HandlerError::retry("not yet")),
        "doomed" if !gates.iter().any(|gate| gate.exists()) => {
            return Err(HandlerError::dead("without mercy"));
        }
        "killer" => std::process::abort(),
        _ => {}
    }
    Ok(())
}

/// How often the handler fails with message `n` of a key before it succeeds.
pub(super) fn failures(n: usize) -> usize {
    match n {
        n if n % 31 == 7 => 2,
        n if n % 10 == 3 => 1,
        _ => 0,
    }
}

/// Writes down when this process did not get to run for a good part of its lease: on a machine that
/// is busy elsewhere that is as good as a stop.
async fn note_pauses(ledger: Arc<Ledger>, lease: Duration) {
    loop {
        let _pause = Stopwatch::start(&ledger, lease);
        tokio::time::sleep(lease / 30).await;
    }
}

/// Writes a stall down when it ends, also if the call was given up.
struct Stopwatch<'a> {
    ledger: &'a Ledger,
    began: Instant,
    longest: Duration,
}

impl<'a> Stopwatch<'a> {
    fn start(ledger: &'a Ledger, lease: Duration) -> Self {
        // Leases are renewed at a third, so two of these in a row can lose one.
        Self { ledger, began: Instant::now(), longest: lease / 4 }
    }
}

impl Drop for Stopwatch<'_> {
    fn drop(&mut self) {
        if self.began.elapsed() > self.longest {
            self.ledger.note("stalled", self.began.elapsed().as_millis());
        }
    }
}

/// Writes down what became of settles, and calls that took long.
#[derive(Debug)]
struct Watch {
    ledger: Arc<Ledger>,
    lease: Duration,
}

impl Watch {
    fn timed<'a, T: Send + 'a>(&'a self, call: BoxFuture<'a, T>) -> BoxFuture<'a, T> {
        Box::pin(async move {
            let _time = Stopwatch::start(&self.ledger, self.lease);
            call.await
        })
    }
}

impl Around for Watch {
    fn claim<'a>(&'a self, call: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        self.timed(call)
    }

    fn renew<'a>(&'a self, call: BoxFuture<'a, Result<Settled>>) -> BoxFuture<'a, Result<Settled>> {
        self.timed(call)
    }

    fn settle<'a>(
        &'a self,
        items: &'a [(Lease, Settlement)],
        call: BoxFuture<'a, Result<Settled>>,
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(async move {
            let settled = self.timed(call).await?;
            for (lease, settlement) in items {
                if settled.lost.contains(lease) {
                    self.ledger.note("refused", lease.work.seq());
                } else if *settlement == Settlement::Done {
                    self.ledger.note("settled", lease.work.seq());
                }
            }
            Ok(settled)
        })
    }
}
