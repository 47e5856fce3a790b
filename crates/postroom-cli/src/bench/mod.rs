//! Measures how fast a database publishes and delivers.
//!
//! Three parts: publish into an empty queue, drain it, and then one message after the other for the
//! time that each takes. All in this process, on one thread: what it shows is the least that a
//! service with more of them can expect.

mod scratch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use postroom::lifecycle::Outcome;
use postroom::store::BoxFuture;
use postroom::{Delivery, Dispatcher, DispatcherConfig, Message, Sink};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

pub(crate) use scratch::Scratch;

use crate::args;
use crate::failure::{Exit, Failure};
use crate::store::{Access, Ending, OpenStore};

/// So many single messages are timed, at most.
const TIMED: u32 = 1_000;

/// A delivery that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) messages: u64,
    /// How long it took to publish them, and to deliver them.
    pub(crate) publishing: Duration,
    pub(crate) delivering: Duration,
    /// Of single messages: from the call to the commit, and from there to the handler.
    pub(crate) commit: Latency,
    pub(crate) handler: Latency,
}

/// Percentiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Latency {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(place).copied().unwrap_or_default()
        };
        Self { p50: at(50), p99: at(99), max: at(100) }
    }
}

/// Counts what it gets and says when.
struct Counter {
    seen: Arc<AtomicU64>,
    arrivals: mpsc::UnboundedSender<Instant>,
}

impl Sink for Counter {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        for _ in batch {
            self.seen.fetch_add(1, Ordering::Relaxed);
            // Nobody listens any more when it is over.
            let _ = self.arrivals.send(Instant::now());
        }
        Box::pin(async move { batch.iter().map(|_| Outcome::Done).collect() })
    }
}

/// Makes the tables, measures, and leaves them for whoever drops them. An interrupt is heeded when
/// the tables are there: a migration that is left alone goes on in the server, and nobody could
/// tell what is to be dropped.
pub(crate) async fn measure(scratch: &Scratch, args: &args::Bench) -> Result<Measured, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(Exit::Error, "can not listen for signals").why(&error))?;
    let store = scratch.target.open(Access::Migrate).await?;
    let measured = match store.admin().migrate().await {
        Ok(_) => tokio::select! {
            measured = measure_on(&store, args) => measured,
            _ = interrupt.recv() => Err(Failure::new(Exit::Error, "interrupted")),
        },
        Err(error) => Err(error.into()),
    };
    // What was under way ends here, before the tables are dropped under it.
    let _ = tokio::time::timeout(PATIENCE, store.close()).await;
    measured
}

async fn measure_on(store: &OpenStore, args: &args::Bench) -> Result<Measured, Failure> {
    let publishing = publish(store, args).await?;
    let (arrivals, mut arrived) = mpsc::unbounded_channel();
    let seen = Arc::new(AtomicU64::new(0));
    let sink = Counter { seen: Arc::clone(&seen), arrivals };
    let config = DispatcherConfig::default();
    let started = Instant::now();
    let running = Dispatcher::new(store.engine(), sink).config(config).start()?;
    let delivering = drain(&seen, u64::from(args.messages), started).await?;
    while arrived.try_recv().is_ok() {}
    let (commit, handler) = time_each(store, args, &mut arrived).await?;
    running.shutdown(PATIENCE).await;
    let stats = store.admin().stats().await?;
    let messages = u64::from(args.messages);
    let expected = messages + u64::from(args.messages.min(TIMED));
    if stats.done != expected {
        let what = format!("{} of {expected} messages were settled", stats.done);
        return Err(Failure::new(Exit::Error, what).next("tell us: that must not happen"));
    }
    Ok(Measured { messages, publishing, delivering, commit, handler })
}

fn message(bytes: u32) -> Result<Message, Failure> {
    let payload = vec![b'x'; usize::try_from(bytes).unwrap_or(usize::MAX)];
    let message = Message::builder("postroom.bench").content_type("text/plain").payload(payload);
    Ok(message.build()?)
}

async fn publish(store: &OpenStore, args: &args::Bench) -> Result<Duration, Failure> {
    let bar = bar("publishing", u64::from(args.messages));
    let started = Instant::now();
    let mut left = args.messages;
    while left > 0 {
        let chunk = left.min(u32::from(args.chunk));
        let messages: Result<Vec<_>, _> = (0..chunk).map(|_| message(args.bytes)).collect();
        store.publish_all(messages?, Ending::Commit).await?;
        bar.inc(u64::from(chunk));
        left -= chunk;
    }
    bar.finish_and_clear();
    Ok(started.elapsed())
}

/// Until all were handed out.
async fn drain(seen: &AtomicU64, messages: u64, started: Instant) -> Result<Duration, Failure> {
    let bar = bar("delivering", messages);
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let now = seen.load(Ordering::Relaxed);
        bar.set_position(now);
        if now >= messages {
            bar.finish_and_clear();
            return Ok(started.elapsed());
        }
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            return Err(stuck());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn stuck() -> Failure {
    let what = "nothing has been delivered for a minute";
    Failure::new(Exit::Error, what).next("`postroom doctor` may know why")
}

/// One message after the other.
async fn time_each(
    store: &OpenStore,
    args: &args::Bench,
    arrived: &mut mpsc::UnboundedReceiver<Instant>,
) -> Result<(Latency, Latency), Failure> {
    let timed = args.messages.min(TIMED);
    let bar = bar("timing", u64::from(timed));
    let (mut commits, mut handlers) = (Vec::new(), Vec::new());
    for _ in 0..timed {
        let message = message(args.bytes)?;
        let called = Instant::now();
        store.enqueue(message).await?;
        let committed = Instant::now();
        let arrival = tokio::time::timeout(PATIENCE, arrived.recv()).await;
        let Ok(Some(arrival)) = arrival else { return Err(stuck()) };
        commits.push(committed - called);
        // It may begin before the caller hears of its commit.
        handlers.push(arrival.saturating_duration_since(committed));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok((Latency::of(commits), Latency::of(handlers)))
}

/// Shown when standard error is a terminal.
fn bar(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total).with_message(what);
    match ProgressStyle::with_template("{msg:10} {bar:32} {pos}/{len}, {per_sec}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times = (1..=200).rev().map(Duration::from_millis).collect();
        let Latency { p50, p99, max } = Latency::of(times);
        assert_eq!([p50, p99, max].map(|time| time.as_millis()), [100, 198, 200]);
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
