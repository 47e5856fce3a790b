//! What a purge would delete.

use std::time::Duration;

use postroom_core::Timestamp;
use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{List, Purge, Record, Status};
use tokio::time::Instant;

use super::{Desk, Queue};
use crate::problem::Problem;

/// No more are counted, of each state.
const MOST: u64 = 10_000;
/// Nor for longer.
const AT_MOST_FOR: Duration = Duration::from_secs(3);
const PAGE: u32 = 500;

/// So many messages, and when the oldest of them was settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) number: u64,
    /// Whether there may be more that were not counted.
    pub(crate) more: bool,
    pub(crate) oldest: Option<Timestamp>,
}

impl Counted {
    fn add(&mut self, settled: Timestamp) {
        self.number += 1;
        self.oldest = self.oldest.into_iter().chain([settled]).min();
    }
}

/// What is old enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) done: Counted,
    pub(crate) discarded: Counted,
    pub(crate) dead: Counted,
}

impl Desk {
    /// Counts the messages that a purge would delete now, within bounds.
    pub(crate) async fn find_old(&self, queue: &Queue, purge: &Purge) -> Result<Found, Problem> {
        let now = Timestamp::host_now();
        let before = |age: Option<Duration>| age.map(|age| now.saturating_sub(age));
        let (done, dead) = (before(purge.done), before(purge.dead));
        let mut found = Found::default();
        if let Some(until) = done {
            let more = walk(queue, Status::Done, until, |record| {
                if let Some(settled) = record.processed_at.filter(|at| *at <= until) {
                    found.done.add(settled);
                }
            });
            found.done.more = more.await?;
        }
        if let Some(until) = done.max(dead) {
            let more = walk(queue, Status::Dead, until, |record| {
                let is_discarded = record.reason == Some(DeadReason::Discarded);
                let (counted, until) = match is_discarded {
                    true => (&mut found.discarded, done),
                    false => (&mut found.dead, dead),
                };
                let old = record.processed_at.filter(|at| until.is_some_and(|until| *at <= until));
                old.into_iter().for_each(|settled| counted.add(settled));
            });
            let more = more.await?;
            (found.discarded.more, found.dead.more) = (more && done.is_some(), more);
        }
        Ok(found)
    }
}

/// Shows all of a state that were written until then. Answers whether it stopped before the end.
async fn walk(
    queue: &Queue,
    status: Status,
    until: Timestamp,
    mut look: impl FnMut(&Record),
) -> Result<bool, Problem> {
    let deadline = Instant::now() + AT_MOST_FOR;
    let mut list =
        List { status: Some(status), until: Some(until), limit: PAGE, ..List::default() };
    let mut seen = 0;
    loop {
        let page = queue.store.list(&list).await?;
        page.records.iter().for_each(&mut look);
        seen += page.records.len() as u64;
        let Some(next) = page.next else { return Ok(false) };
        list.before = Some(next);
        if seen >= MOST || Instant::now() >= deadline {
            return Ok(true);
        }
    }
}
