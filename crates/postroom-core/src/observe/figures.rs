//! The counters behind a [`Snapshot`], which also feed the `metrics` facade.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Counter, counter, histogram};

use super::histogram::Histogram;
use super::windows::Windows;
use super::{Counts, Snapshot, Throughput, Took, registry};
use crate::lifecycle::DeadReason;
use crate::message::Message;

// Topics with a label of their own. Further ones share one: names of topics must not fill the
// memory of whoever collects.
const MOST_TOPICS: usize = 100;
const OTHERS: &str = "(others)";
const UNKNOWN: &str = "(unknown)";

#[derive(Debug)]
pub(crate) struct Figures {
    store: Arc<str>,
    queue: &'static str,
    totals: Totals,
    handler: Histogram,
    delivery: Histogram,
    windows: Windows,
    whole: OnceLock<Whole>,
    topics: RwLock<HashMap<Box<str>, Arc<PerTopic>>>,
}

#[derive(Debug, Default)]
struct Totals {
    enqueued: AtomicU64,
    hot: AtomicU64,
    hot_dropped: AtomicU64,
    duplicates: AtomicU64,
    conflicts: AtomicU64,
    claimed: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    dead: AtomicU64,
    expired: AtomicU64,
    reaped: AtomicU64,
    leases_lost: AtomicU64,
}

/// What is collected without a topic. Made at its first use, since a recorder that is installed
/// later than that is not noticed.
#[derive(Debug)]
struct Whole {
    hot: Counter,
    hot_dropped: Counter,
    claimed: Counter,
    dead: Counter,
    reaped: Counter,
    leases_lost: Counter,
    claim: metrics::Histogram,
    batch: metrics::Histogram,
}

#[derive(Debug)]
struct PerTopic {
    enqueued: Counter,
    duplicates: Counter,
    conflicts: Counter,
    done: Counter,
    failed: Counter,
    dead: Counter,
    expired: Counter,
    handler: metrics::Histogram,
    delivery: metrics::Histogram,
    windows: Windows,
}

impl Figures {
    pub(super) fn new(store: Arc<str>, queue: &'static str) -> Self {
        Self {
            store,
            queue,
            totals: Totals::default(),
            handler: Histogram::default(),
            delivery: Histogram::default(),
            windows: Windows::default(),
            whole: OnceLock::new(),
            topics: RwLock::default(),
        }
    }

    pub(super) fn enqueued(&self, message: &Message, hot: bool) {
        add(&self.totals.enqueued, 1);
        self.topic(message).enqueued.increment(1);
        if hot {
            add(&self.totals.hot, 1);
            self.whole().hot.increment(1);
        }
    }

    pub(super) fn duplicate(&self, message: &Message) {
        add(&self.totals.duplicates, 1);
        self.topic(message).duplicates.increment(1);
    }

    pub(super) fn conflict(&self, message: &Message) {
        add(&self.totals.conflicts, 1);
        self.topic(message).conflicts.increment(1);
    }

    pub(super) fn hot_dropped(&self, count: usize) {
        add(&self.totals.hot_dropped, count as u64);
        self.whole().hot_dropped.increment(count as u64);
    }

    pub(super) fn claimed(&self, count: usize, dead: u32, took: Duration) {
        self.whole().claim.record(took.as_secs_f64());
        if count > 0 {
            self.whole().batch.record(count as f64);
        }
        add(&self.totals.claimed, count as u64);
        add(&self.totals.dead, dead.into());
        self.whole().claimed.increment(count as u64);
        self.whole().dead.increment(dead.into());
    }

    pub(super) fn done(&self, message: &Message, took: Took) {
        add(&self.totals.done, 1);
        self.windows.add(1, 0);
        self.handler.record(took.handler);
        self.delivery.record(took.total);
        let topic = self.topic(message);
        topic.done.increment(1);
        topic.windows.add(1, 0);
        topic.handler.record(took.handler.as_secs_f64());
        topic.delivery.record(took.total.as_secs_f64());
    }

    pub(super) fn failed(&self, message: &Message, took: Took) {
        add(&self.totals.failed, 1);
        self.windows.add(0, 1);
        self.handler.record(took.handler);
        let topic = self.topic(message);
        topic.failed.increment(1);
        topic.windows.add(0, 1);
        topic.handler.record(took.handler.as_secs_f64());
    }

    pub(super) fn dead(&self, message: &Message, reason: DeadReason) {
        add(&self.totals.dead, 1);
        let topic = self.topic(message);
        topic.dead.increment(1);
        if reason == DeadReason::Expired {
            add(&self.totals.expired, 1);
            topic.expired.increment(1);
        } else {
            self.windows.add(0, 1);
            topic.windows.add(0, 1);
        }
    }

    pub(super) fn reaped(&self, released: u32, dead: u32) {
        add(&self.totals.reaped, released.into());
        add(&self.totals.dead, dead.into());
        self.whole().reaped.increment(released.into());
        self.whole().dead.increment(dead.into());
    }

    pub(super) fn lost(&self, count: usize) {
        add(&self.totals.leases_lost, count as u64);
        self.whole().leases_lost.increment(count as u64);
    }

    pub(super) fn snapshot(&self, store: String, queue: &'static str) -> Snapshot {
        let totals = &self.totals;
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Snapshot {
            store,
            queue,
            counts: Counts {
                enqueued: read(&totals.enqueued),
                hot: read(&totals.hot),
                hot_dropped: read(&totals.hot_dropped),
                duplicates: read(&totals.duplicates),
                conflicts: read(&totals.conflicts),
                claimed: read(&totals.claimed),
                done: read(&totals.done),
                failed: read(&totals.failed),
                dead: read(&totals.dead),
                expired: read(&totals.expired),
                reaped: read(&totals.reaped),
                leases_lost: read(&totals.leases_lost),
            },
            hot: None,
            cold: None,
            running: None,
            dispatchers: 0,
            beat: None,
            handler: self.handler.latency(),
            delivery: self.delivery.latency(),
            minute: self.windows.last(Duration::from_mins(1)),
            five_minutes: self.windows.last(Duration::from_mins(5)),
            stats: None,
        }
    }

    pub(super) fn topics(&self) -> BTreeMap<String, Throughput> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let minute = Duration::from_mins(1);
        topics.iter().map(|(name, topic)| (name.to_string(), topic.windows.last(minute))).collect()
    }

    fn whole(&self) -> &Whole {
        self.whole.get_or_init(|| {
            let labels = [("store", self.store.to_string()), ("queue", self.queue.to_owned())];
            let [store, queue] = labels.clone();
            // The claim that made them dead does not say of which topic they were.
            let dead = [store, queue, ("topic", UNKNOWN.to_owned())];
            Whole {
                hot: counter!(registry::HOT_ENQUEUED.name, &labels),
                hot_dropped: counter!(registry::HOT_DROPPED.name, &labels),
                claimed: counter!(registry::CLAIMED.name, &labels),
                dead: counter!(registry::DEAD.name, &dead),
                reaped: counter!(registry::REAPED.name, &labels),
                leases_lost: counter!(registry::LEASE_LOST.name, &labels),
                claim: histogram!(registry::CLAIM_DURATION.name, &labels),
                batch: histogram!(registry::BATCH_SIZE.name, &labels),
            }
        })
    }

    fn topic(&self, message: &Message) -> Arc<PerTopic> {
        let name = message.topic().as_str();
        let known = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(name) {
            return Arc::clone(known);
        }
        let name = if known.len() < MOST_TOPICS { name } else { OTHERS };
        drop(known);
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(topics.entry(name.into()).or_insert_with(|| Arc::new(self.per_topic(name))))
    }

    fn per_topic(&self, topic: &str) -> PerTopic {
        let labels = [
            ("store", self.store.to_string()),
            ("queue", self.queue.to_owned()),
            ("topic", topic.to_owned()),
        ];
        PerTopic {
            enqueued: counter!(registry::ENQUEUED.name, &labels),
            duplicates: counter!(registry::DUPLICATES.name, &labels),
            conflicts: counter!(registry::CONFLICTS.name, &labels),
            done: counter!(registry::DELIVERED.name, &labels),
            failed: counter!(registry::FAILURES.name, &labels),
            dead: counter!(registry::DEAD.name, &labels),
            expired: counter!(registry::EXPIRED.name, &labels),
            handler: histogram!(registry::DELIVERY_DURATION.name, &labels),
            delivery: histogram!(registry::DELIVERY_LAG.name, &labels),
            windows: Windows::default(),
        }
    }
}

fn add(figure: &AtomicU64, count: u64) {
    figure.fetch_add(count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obs_2_every_topic_has_its_own_last_minute() {
        let figures = Figures::new("main".into(), "outbox");
        let message = |topic: &str| Message::builder(topic).build().expect("a message");
        let took = Took { handler: Duration::ZERO, total: Duration::ZERO };
        for n in 0..MOST_TOPICS + 5 {
            figures.done(&message(&format!("topic.{n}")), took);
        }
        figures.failed(&message("topic.0"), took);
        figures.dead(&message("topic.1"), DeadReason::Expired);
        figures.dead(&message("topic.1"), DeadReason::Permanent);
        let topics = figures.topics();
        let of = |topic: &str| topics.get(topic).map(|lately| (lately.done, lately.failed));
        assert_eq!(of("topic.0"), Some((1, 1)));
        assert_eq!(of("topic.1"), Some((1, 1)), "what expired was never tried");
        assert_eq!((of(OTHERS), of("topic.104")), (Some((5, 0)), None));
    }
}
