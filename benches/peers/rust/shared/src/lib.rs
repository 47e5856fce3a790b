//! What all peers in Rust have in common: the arguments, the clock, and the one line of answer.
//!
//! A peer fills its own tables with its own calls, starts its own engine and says how many
//! messages are left. When the time begins and when it ends is decided here, alike for all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::json;
use tokio::task::JoinSet;

/// How often it is asked whether everything is done.
const LOOK: Duration = Duration::from_millis(1);

const CHUNK: usize = 10_000;

/// What the benchmark wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// How long a backlog takes.
    Drain,
    /// How long a message waits from its commit to its handler.
    Latency,
}

/// The command line, the same for the peers of all languages.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub peer: String,
    pub job: Job,
    pub url: String,
    pub messages: usize,
    pub payload: usize,
    pub patience: Duration,
    pub per_second: u64,
}

impl Arguments {
    /// Reads pairs of `--name value`.
    pub fn read() -> anyhow::Result<Self> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let pairs: HashMap<_, _> = words
            .chunks_exact(2)
            .map(|pair| (pair[0].trim_start_matches('-'), pair[1].as_str()))
            .collect();
        let text = |name: &str| pairs.get(name).copied();
        let number = |name: &str, default: u64| -> anyhow::Result<u64> {
            text(name).map_or(Ok(default), |value| value.parse().context("not a number"))
        };
        Ok(Self {
            peer: text("peer").context("--peer is missing")?.to_owned(),
            job: match text("job") {
                Some("drain") => Job::Drain,
                Some("latency") => Job::Latency,
                other => bail!("--job is drain or latency, not {other:?}"),
            },
            url: text("url").context("--url is missing")?.to_owned(),
            messages: usize::try_from(number("messages", 20_000)?)?,
            payload: usize::try_from(number("payload", 200)?)?,
            patience: Duration::from_secs(number("patience", 60)?),
            per_second: number("per-second", 1_000)?,
        })
    }

    /// The sizes of the parts in which a backlog is written.
    pub fn chunks(&self) -> impl Iterator<Item = usize> {
        let messages = self.messages;
        (0..messages).step_by(CHUNK).map(move |first| CHUNK.min(messages - first))
    }

    /// A text that is, with the quotation marks that JSON needs, as long as was asked for.
    pub fn text(&self) -> String {
        "abcdefghijklmnop".chars().cycle().take(self.payload.saturating_sub(2)).collect()
    }

    /// A text as long as that of a drain, which begins with a number.
    pub fn numbered_text(&self, number: usize) -> String {
        let mut text = format!("{number:08}");
        text.push_str(self.text().get(text.len()..).unwrap_or_default());
        text
    }
}

/// The number at the start of a text that has one.
pub fn number_of(text: &str) -> Option<usize> {
    text.get(..8)?.parse().ok()
}

/// The version that a `Cargo.lock` names.
pub fn version(lock: &'static str, package: &str) -> &'static str {
    let mut lines = lock.lines();
    lines.find(|line| line.strip_prefix("name = ").is_some_and(|n| n.trim_matches('"') == package));
    let version = lines.next().and_then(|line| line.strip_prefix("version = "));
    version.map_or("?", |version| version.trim_matches('"'))
}

/// Counts what a handler did.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many were handled, and in what time.
#[derive(Clone, Copy, Debug)]
pub struct Drained {
    handled: usize,
    took: Duration,
}

/// Waits until the peer's own tables say that nothing is left, or until patience is over.
///
/// The tables are not asked before the handler has seen every message, so that the question
/// costs the peer nothing. The time ends before the question that finds nothing left.
pub async fn drained(
    arguments: &Arguments,
    began: Instant,
    counter: &Counter,
    left: impl AsyncFn() -> anyhow::Result<i64>,
) -> anyhow::Result<Drained> {
    while counter.get() < arguments.messages && began.elapsed() < arguments.patience {
        tokio::time::sleep(LOOK).await;
    }
    loop {
        let took = began.elapsed();
        let left = usize::try_from(left().await?)?;
        if left == 0 || took >= arguments.patience {
            return Ok(Drained { handled: arguments.messages.saturating_sub(left), took });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// When each message was committed, as its publisher saw it, and when its handler began.
#[derive(Clone, Debug, Default)]
pub struct Times(Arc<Mutex<[HashMap<usize, Instant>; 2]>>);

impl Times {
    pub fn committed(&self, number: usize) {
        let now = Instant::now();
        self.lock()[0].insert(number, now);
    }

    pub fn begun(&self, number: usize) {
        let now = Instant::now();
        self.lock()[1].entry(number).or_insert(now);
    }

    fn lock(&self) -> MutexGuard<'_, [HashMap<usize, Instant>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_begun(&self) -> bool {
        let times = self.lock();
        times[1].len() >= times[0].len()
    }

    fn waits(&self) -> Vec<Duration> {
        let times = self.lock();
        let wait = |(number, committed): (&usize, &Instant)| {
            times[1].get(number).map(|begun| begun.saturating_duration_since(*committed))
        };
        let mut waits: Vec<_> = times[0].iter().filter_map(wait).collect();
        waits.sort_unstable();
        waits
    }
}

/// Publishes at a rate that does not depend on how long each takes, then waits for the handlers.
/// The peer has a second before it, to connect and to listen.
pub async fn publish_steadily<F>(
    arguments: &Arguments,
    times: &Times,
    publish: impl Fn(String) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / arguments.per_second as u32);
    let mut publishers = JoinSet::new();
    for number in 0..arguments.messages {
        ticks.tick().await;
        let (publishing, times) = (publish(arguments.numbered_text(number)), times.clone());
        publishers.spawn(async move {
            publishing.await?;
            times.committed(number);
            anyhow::Ok(())
        });
    }
    while let Some(publisher) = publishers.join_next().await {
        publisher??;
    }
    let ended = Instant::now();
    while !times.all_begun() && ended.elapsed() < arguments.patience {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Prints the line of a drain.
pub fn report_drain(arguments: &Arguments, version: &str, settings: &str, drained: Drained) {
    let line = json!({
        "peer": arguments.peer,
        "version": version,
        "settings": settings,
        "handled": drained.handled,
        "seconds": drained.took.as_secs_f64(),
    });
    println!("{line}");
}

/// Prints the line of a measurement of latency.
pub fn report_latency(arguments: &Arguments, version: &str, settings: &str, times: &Times) {
    let waits = times.waits();
    let at = |share: usize| waits.get(waits.len() * share / 100).map(|wait| wait.as_micros());
    let line = json!({
        "peer": arguments.peer,
        "version": version,
        "settings": settings,
        "handled": waits.len(),
        "p50_us": at(50).unwrap_or(0) as u64,
        "p99_us": at(99).unwrap_or(0) as u64,
    });
    println!("{line}");
}
