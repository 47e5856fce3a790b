//! All figures at one moment, for people and for programs.

use std::time::Duration;

use metrics::gauge;
use serde::{Serialize, Serializer};

use super::registry::{self, Metric};
use crate::store::Stats;

/// All figures of one store in this process, at one moment.
///
/// Counters start with the process; the two rates look back over a minute and five. What the
/// database knows is added by [`with_stats`](Self::with_stats). Counters and latencies also go to
/// the `metrics` facade as they happen; [`record`](Self::record) adds the rest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Snapshot {
    /// The store's name.
    pub store: String,
    /// Which box: `outbox` or `inbox`.
    pub queue: &'static str,
    /// What happened since the process began.
    pub counts: Counts,
    /// Messages on their way from a commit in this process; nothing without a dispatcher.
    pub hot: Option<Depth>,
    /// Claimed messages in this process; nothing without a dispatcher.
    pub cold: Option<Depth>,
    /// Deliveries that have begun and not ended; nothing without a dispatcher.
    pub running: Option<usize>,
    /// How many dispatchers run in this process, ending ones too.
    pub dispatchers: usize,
    /// How long ago all of them gave a sign of life, which they do twice a second; nothing without
    /// a dispatcher.
    #[serde(serialize_with = "maybe_seconds")]
    pub beat: Option<Duration>,
    /// How long handlers took.
    pub handler: Latency,
    /// From the write of a message to the end of its delivery.
    pub delivery: Latency,
    /// The last minute.
    pub minute: Throughput,
    /// The last five minutes.
    pub five_minutes: Throughput,
    /// What the database knows, if it was asked.
    pub stats: Option<Stats>,
}

/// What happened since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Messages written, also by transactions that were rolled back later.
    pub enqueued: u64,
    /// Of those: born leased to the dispatcher of this process.
    pub hot: u64,
    /// Messages that found no place in the hot queue.
    pub hot_dropped: u64,
    /// Messages not written because they were there before.
    pub duplicates: u64,
    /// Messages not received because their sender had used the same id for other content.
    pub conflicts: u64,
    /// Messages that came from claims.
    pub claimed: u64,
    /// Deliveries that took effect.
    pub done: u64,
    /// Deliveries that did not, and are tried again.
    pub failed: u64,
    /// Messages made dead by this process, for any reason.
    pub dead: u64,
    /// Of those: not delivered before their expiry, as far as a worker met them.
    pub expired: u64,
    /// Expired leases that the reaper found.
    pub reaped: u64,
    /// Leases that went to somebody else before they were settled.
    pub leases_lost: u64,
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// Messages in it, waiting or running.
    pub held: usize,
    /// How many there may be.
    pub size: usize,
}

/// How long something took, to a quarter of each value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// How often it happened.
    pub count: u64,
    /// Half of them took at most this.
    #[serde(serialize_with = "seconds")]
    pub p50: Duration,
    /// Nine in ten.
    #[serde(serialize_with = "seconds")]
    pub p90: Duration,
    /// Ninety-nine in a hundred.
    #[serde(serialize_with = "seconds")]
    pub p99: Duration,
    /// All of them.
    #[serde(serialize_with = "seconds")]
    pub longest: Duration,
}

/// What was delivered lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Throughput {
    /// Deliveries that took effect.
    pub done: u64,
    /// Deliveries that did not.
    pub failed: u64,
    /// Deliveries that took effect, per second.
    pub per_second: f64,
    /// The share of deliveries that did not, 0 to 1.
    pub failure_ratio: f64,
}

impl Snapshot {
    /// Adds what the database knows; see [`AdminStore::stats`](crate::store::AdminStore::stats).
    #[must_use]
    pub fn with_stats(mut self, stats: Stats) -> Self {
        self.stats = Some(stats);
        self
    }

    /// The same as JSON; durations are seconds.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers and plain strings always can be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Hands its depths, rates and backlog to the `metrics` facade as gauges. Call it whenever
    /// somebody looks, such as on a scrape.
    pub fn record(&self) {
        let labels = || [("store", self.store.clone()), ("queue", self.queue.to_owned())];
        let set = |metric: Metric, value: f64| gauge!(metric.name, &labels()).set(value);
        if let Some(depth) = self.hot {
            set(registry::HOT_QUEUE, depth.held as f64);
        }
        if let Some(depth) = self.cold {
            set(registry::COLD_QUEUE, depth.held as f64);
        }
        if let Some(running) = self.running {
            set(registry::RUNNING, running as f64);
        }
        for (window, lately) in [("1m", self.minute), ("5m", self.five_minutes)] {
            let [store, queue] = labels();
            let labels = [store, queue, ("window", window.to_owned())];
            gauge!(registry::DELIVERED_PER_SECOND.name, &labels).set(lately.per_second);
            gauge!(registry::FAILURE_RATIO.name, &labels).set(lately.failure_ratio);
        }
        if let Some(stats) = &self.stats {
            set(registry::PENDING, (stats.ready + stats.waiting + stats.leased) as f64);
            set(registry::RETRYING, stats.failed as f64);
            set(registry::IN_FLIGHT, stats.leased as f64);
            set(registry::DEAD_LETTERS, stats.dead as f64);
            set(registry::OLDEST_AGE, stats.oldest_ready.unwrap_or_default().as_secs_f64());
        }
    }
}

fn maybe_seconds<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
