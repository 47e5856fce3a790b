//! When a box is counted: often while somebody looks, seldom while nothing happens, and never many
//! at once.
//!
//! One process may look at a thousand boxes that do nothing. What all of them cost together is
//! bounded: the more there are, the longer each of them waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom_core::Snapshot;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Sample, Seen};

/// While somebody looks.
pub(super) const WATCHED: Duration = Duration::from_secs(2);
/// While nobody looks and something happens.
pub(super) const UNWATCHED: Duration = Duration::from_secs(30);
/// The longest wait of a box that is in use.
const SELDOM: Duration = Duration::from_mins(5);
/// An inbox that never had a message is looked at so seldom, where there are many.
const UNUSED: Duration = Duration::from_hours(1);
/// Monitoring looks all the time; where there are few boxes, it is content with this age.
const RECENT: Duration = Duration::from_secs(5);
/// Each box makes all of them wait for so much longer.
const SHARE: Duration = Duration::from_millis(300);
/// So many boxes are few.
pub(crate) const FEW: usize = 16;
/// So many are counted at once, and as many again of those that somebody looks at.
const PLACES: usize = 4;
/// Who takes longer than this lends its place: it waits for its database, and others need not.
pub(super) const LENDS: Duration = Duration::from_millis(250);

/// What the samplers of a process have in common.
pub(crate) struct Turns {
    boxes: AtomicUsize,
    places: Semaphore,
    /// People do not wait for boxes that nobody looks at.
    watched: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            boxes: AtomicUsize::new(0),
            places: Semaphore::new(PLACES),
            watched: Semaphore::new(PLACES),
        }
    }
}

impl Turns {
    /// So many boxes there are.
    pub(crate) fn share(&self, boxes: usize) {
        self.boxes.store(boxes, Ordering::Relaxed);
    }

    pub(super) fn boxes(&self) -> usize {
        self.boxes.load(Ordering::Relaxed)
    }

    /// A place to count, as soon as there is one.
    pub(super) async fn place(&self, is_watched: bool) -> Option<SemaphorePermit<'_>> {
        let places = if is_watched { &self.watched } else { &self.places };
        // Nobody closes it.
        places.acquire().await.ok()
    }
}

/// How old a sample may be for monitoring, with so many boxes.
pub(super) fn freshness(boxes: usize, is_unused: bool) -> Duration {
    match is_unused && boxes > FEW {
        true => UNUSED,
        false => {
            SHARE.saturating_mul(u32::try_from(boxes).unwrap_or(u32::MAX)).clamp(RECENT, SELDOM)
        }
    }
}

/// How long a box waits after each count while nobody looks.
#[derive(Debug)]
pub(super) struct Rhythm {
    wait: Duration,
    /// Different for each, so that boxes that began together do not stay together.
    step: f64,
}

impl Rhythm {
    /// `number` is another one for every box.
    pub(super) fn new(number: usize) -> Self {
        Self { wait: Duration::ZERO, step: spread(number as f64) }
    }

    /// The wait after a count that brought this, among so many boxes.
    pub(super) fn next(&mut self, news: News, boxes: usize) -> Duration {
        let longest = freshness(boxes, news == News::Unused).max(UNWATCHED);
        self.wait = match news {
            News::Some => UNWATCHED,
            News::None => (self.wait * 2).clamp(UNWATCHED, longest),
            News::Unused => longest,
        };
        self.step = spread(self.step * 1_000.0);
        self.wait.mul_f64(1.0 - self.step / 4.0)
    }
}

/// Something in 0 to 1, with little in common between neighbours: parts of the golden section.
fn spread(number: f64) -> f64 {
    ((number + 1.0) * 0.618_033_988_75).fract()
}

/// Whether a count brought something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Something changed, is under way, or is wrong.
    Some,
    /// All is as it was.
    None,
    /// It is an inbox, and never had a message.
    Unused,
}

impl News {
    /// What is new in a sample.
    pub(super) fn of(before: &Sample, now: &Sample) -> Self {
        let (Some(old), Some(seen)) = (&before.seen, &now.seen) else {
            return if now.is_unused() { Self::Unused } else { Self::Some };
        };
        let is_same = figures(old) == figures(seen)
            && !happened(&before.snapshot, &now.snapshot)
            && before.wakes == now.wakes;
        let is_quiet = seen.stats.ready + seen.stats.leased == 0;
        match is_same && is_quiet {
            true if now.is_unused() => Self::Unused,
            true => Self::None,
            false => Self::Some,
        }
    }
}

/// Whether this process did anything in between.
pub(super) fn happened(before: &Snapshot, now: &Snapshot) -> bool {
    before.counts != now.counts || before.dispatchers != now.dispatchers
}

/// What changes only when something happens.
fn figures(seen: &Seen) -> ([u64; 4], [usize; 3]) {
    let stats = &seen.stats;
    let live = seen.nodes.iter().filter(|node| node.is_live).count();
    let messages = [stats.waiting, stats.failed, stats.done, stats.dead];
    (messages, [live, seen.blocked.len(), seen.pauses.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obs_5_what_monitoring_costs_is_bounded_however_many_boxes_there_are() {
        let seconds = |boxes| freshness(boxes, false).as_secs();
        assert_eq!([1, 2, 16, 20, 100, 200].map(seconds), [5, 5, 5, 6, 30, 60]);
        assert_eq!([1_000, 5_000, usize::MAX].map(seconds), [300; 3]);
        assert_eq!(freshness(16, true), RECENT, "of few, all are alike");
        assert_eq!(freshness(17, true), UNUSED);
    }

    #[test]
    fn obs_5_waits_grow_while_nothing_happens_and_are_short_again_when_something_does() {
        let mut rhythm = Rhythm { wait: Duration::ZERO, step: 0.0 };
        let mut waits = |news, boxes| {
            rhythm.next(news, boxes);
            rhythm.wait.as_secs()
        };
        assert_eq!([(); 6].map(|()| waits(News::None, 1_000)), [30, 60, 120, 240, 300, 300]);
        assert_eq!(waits(News::Some, 1_000), 30);
        assert_eq!([(); 3].map(|()| waits(News::None, 200)), [60, 60, 60]);
        assert_eq!([(); 3].map(|()| waits(News::None, 2)), [30, 30, 30], "few are as ever");
        assert_eq!(waits(News::Unused, 1_000), 3_600);
        assert_eq!(waits(News::Unused, 2), 30);
    }

    #[test]
    fn obs_5_boxes_that_began_together_do_not_stay_together() {
        let waits = (0..100).map(|number| {
            let mut rhythm = Rhythm::new(number);
            rhythm.next(News::Some, 1_000).as_millis()
        });
        let mut waits: Vec<_> = waits.collect();
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 90, "{waits:?}");
        assert!(waits[0] >= 22_500 && waits[waits.len() - 1] <= 30_000, "{waits:?}");
    }
}
