//! One count: what the database is asked, and the rates since the one before.

use std::collections::VecDeque;

use postroom_core::store::{AdminStore, Stats};
use postroom_core::{Result, Snapshot, Timestamp};

use super::{Point, Seen};

/// Points for charts: ten minutes while somebody looks.
const POINTS: usize = 300;
const MOST_TOPICS: u32 = 200;
const MOST_KEYS: u32 = 200;
const MOST_FAILING: u32 = 2_000;

/// Asks a database. What can not be there is not asked for: most boxes hold nothing.
pub(super) async fn look_at(store: &dyn AdminStore) -> Result<Seen> {
    let stats = store.stats().await?;
    let mut seen = Seen {
        stats,
        nodes: store.nodes().await?,
        pauses: store.pauses().await?,
        topics: Vec::new(),
        failing: Vec::new(),
        blocked: Vec::new(),
    };
    if stats.ready + stats.waiting + stats.leased + stats.dead > 0 {
        seen.topics = store.topics(MOST_TOPICS).await?;
        seen.failing = store.failing(MOST_FAILING).await?;
        seen.blocked = store.blocked_keys(MOST_KEYS).await?;
    }
    Ok(seen)
}

/// The points of the charts so far.
#[derive(Default)]
pub(super) struct Points {
    points: VecDeque<Point>,
    before: Option<Totals>,
}

impl Points {
    /// Adds one.
    pub(super) fn add(&mut self, stats: &Stats, snapshot: &Snapshot) {
        let now = Totals::of(stats, snapshot);
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(now.since(self.before.as_ref(), stats));
        self.before = Some(now);
    }

    pub(super) fn all(&self) -> Vec<Point> {
        self.points.iter().copied().collect()
    }
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
