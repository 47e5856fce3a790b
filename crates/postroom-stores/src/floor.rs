//! Where a claim starts to look.
//!
//! Rows leave the queue at its low end, and until a vacuum their index entries stay there: a claim
//! that starts at the beginning walks over all of them. So claims start a little behind the highest
//! place that this process has claimed: about a second behind, because commits become visible out
//! of order (B38). Before it lie rows that others released, rows whose lease ran out and rows of
//! slow transactions; a claim that looks at everything fetches those every few seconds. One that
//! found nothing looks at everything at once, unless that has become dear: under a steady load
//! every other claim finds nothing, and an old transaction keeps all dead rows in the way.
//!
//! Claims in which tenants take turns have none: below the place that claims of one tenant have
//! passed lie the older rows of all others.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How far behind.
const BEHIND: Duration = Duration::from_secs(1);
/// Marks are kept this far apart.
const APART: Duration = Duration::from_millis(100);
/// A full look must not take more than this part of the time.
const SHARE: u32 = 20;
/// And it comes at least this often, at most that often.
const RARELY: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Floor {
    enabled: bool,
    marks: Mutex<Marks>,
}

#[derive(Debug)]
struct Marks {
    /// When which place had been claimed, oldest first.
    passed: VecDeque<(Instant, i64)>,
    next_full: Instant,
    /// Until when the full looks so far have used up their share of the time.
    spent_until: Instant,
    /// Whether rows of the common kind are all that claims met since the last full look.
    is_plain: bool,
}

impl Marks {
    fn pass(&mut self, now: Instant, passed: Option<i64>) {
        let Some(passed) = passed else { return };
        match self.passed.back_mut() {
            Some((at, seq)) if *at + APART > now => *seq = passed.max(*seq),
            _ => self.passed.push_back((now, passed)),
        }
    }
}

/// Where one claim starts.
#[derive(Debug)]
pub(crate) struct Start {
    at: Instant,
    /// Nothing: at the beginning.
    seq: Option<i64>,
    /// See [`follows_others`](Self::follows_others).
    follows: bool,
}

impl Start {
    /// Whether it leaves something out.
    pub(crate) fn is_bounded(&self) -> bool {
        self.seq.is_some_and(|seq| seq > 0)
    }

    /// Whether claims before it found rows in their turn, and nothing but such. Then it may look
    /// for those alone: the next full look finds the others.
    #[cfg(feature = "postgres")]
    pub(crate) fn follows_others(&self) -> bool {
        self.follows
    }

    pub(crate) fn seq(&self) -> i64 {
        self.seq.unwrap_or(0)
    }
}

impl Floor {
    pub(crate) fn new(enabled: bool) -> Self {
        let now = Instant::now();
        let passed = VecDeque::new();
        let marks = Marks { passed, next_full: now, spent_until: now, is_plain: true };
        Self { enabled, marks: Mutex::new(marks) }
    }

    /// After a claim that found nothing: a look at everything, unless it is too dear by now.
    pub(crate) fn start_at_the_beginning(&self) -> Option<Start> {
        let at = Instant::now();
        // A few may come at once, before they are paid for.
        let is_paid = at + RARELY >= self.marks().spent_until;
        is_paid.then_some(Start { at, seq: None, follows: false })
    }

    /// Before a claim.
    pub(crate) fn start(&self) -> Start {
        let at = Instant::now();
        if !self.enabled {
            return Start { at, seq: None, follows: false };
        }
        let mut marks = self.marks();
        if at >= marks.next_full {
            // Other claims that start meanwhile need not look at everything as well.
            marks.next_full = at + OFTEN;
            return Start { at, seq: None, follows: false };
        }
        while marks.passed.get(1).is_some_and(|(passed_at, _)| *passed_at + BEHIND <= at) {
            marks.passed.pop_front();
        }
        let first = marks.passed.front().filter(|(passed_at, _)| *passed_at + BEHIND <= at);
        let follows = marks.is_plain && !marks.passed.is_empty();
        Start { at, seq: Some(first.map_or(0, |(_, seq)| *seq)), follows }
    }

    /// After it: `passed` is the highest place that it took in turn, `again` says that the next
    /// claim should look at everything.
    pub(crate) fn finish(&self, start: Start, passed: Option<i64>, again: bool) {
        if !self.enabled {
            return;
        }
        let now = Instant::now();
        let mut marks = self.marks();
        if start.seq.is_none() {
            let share = SHARE * (now - start.at);
            marks.next_full = now + share.clamp(OFTEN, RARELY);
            // Never so far ahead that what lies below is hidden for longer than that.
            marks.spent_until = (marks.spent_until.max(now) + share).min(now + 2 * RARELY);
            marks.is_plain = true;
        }
        if again {
            marks.next_full = now;
        }
        marks.pass(now, passed);
    }

    /// After a claim that looked for rows in their turn alone; whether there was nothing else.
    #[cfg(feature = "postgres")]
    pub(crate) fn finish_ready(&self, passed: Option<i64>, is_plain: bool) {
        let mut marks = self.marks();
        marks.is_plain &= is_plain;
        marks.pass(Instant::now(), passed);
    }

    /// After this process gave back the item at `seq`. It may have lost a lease before.
    pub(crate) fn lower(&self, seq: i64) {
        let mut marks = self.marks();
        marks.is_plain = false;
        for (_, passed) in &mut marks.passed {
            *passed = seq.min(*passed);
        }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A floor after its first full look.
    fn floor() -> Floor {
        let floor = Floor::new(true);
        let first = floor.start();
        assert_eq!(first.seq, None, "the first claim looks at everything");
        floor.finish(first, Some(10), false);
        floor
    }

    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn it_trails_by_a_second_and_looks_at_everything_now_and_then() {
        let floor = floor();
        assert_eq!(floor.start().seq, Some(0), "nothing is a second old");
        pass(Duration::from_millis(990)).await;
        let start = floor.start();
        assert_eq!(start.seq, Some(0));
        floor.finish(start, Some(20), false);
        pass(Duration::from_millis(10)).await;
        let full = floor.start();
        assert_eq!(full.seq, None, "a full look once a second when it is cheap");
        assert_eq!(floor.start().seq, Some(10), "by one claim only");
        pass(Duration::from_millis(990)).await;
        assert_eq!(floor.start().seq, Some(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_full_look_comes_rarely() {
        let floor = floor();
        pass(OFTEN).await;
        let full = floor.start();
        pass(Duration::from_secs(1)).await;
        floor.finish(full, None, false);
        pass(RARELY - Duration::from_millis(1)).await;
        assert!(floor.start().seq.is_some());
        pass(Duration::from_millis(1)).await;
        assert_eq!(floor.start().seq, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_claim_looks_at_everything_unless_that_is_dear() {
        let floor = floor();
        let look = |took| {
            let floor = &floor;
            async move {
                let Some(start) = floor.start_at_the_beginning() else { return false };
                pass(took).await;
                floor.finish(start, None, false);
                true
            }
        };
        let dear = RARELY / SHARE;
        assert!(look(dear).await);
        assert!(look(dear).await, "some may come at once");
        assert!(!look(dear).await, "a twentieth of the time is enough");
        pass(RARELY - dear).await;
        assert!(look(Duration::from_secs(60)).await);
        pass(RARELY - Duration::from_millis(1)).await;
        assert!(!look(dear).await);
        pass(Duration::from_millis(1)).await;
        assert!(look(dear).await, "what lies below is never hidden for longer");
    }

    #[cfg(feature = "postgres")]
    #[tokio::test(start_paused = true)]
    async fn a_claim_follows_others_while_they_met_nothing_special() {
        let floor = Floor::new(true);
        let first = floor.start();
        assert!(!first.follows_others(), "the first one looks at everything");
        floor.finish(first, None, false);
        assert!(!floor.start().follows_others(), "nothing was found yet");
        floor.finish_ready(Some(10), true);
        assert!(floor.start().follows_others());
        floor.finish_ready(None, false);
        assert!(!floor.start().follows_others(), "something special was there");
        floor.finish_ready(Some(20), true);
        assert!(!floor.start().follows_others(), "and may be there still");
        pass(OFTEN).await;
        let full = floor.start();
        assert!(!full.follows_others());
        floor.finish(full, None, false);
        assert!(floor.start().follows_others());
        floor.lower(15);
        assert!(!floor.start().follows_others(), "what was given back may have lost a lease");
    }

    #[tokio::test(start_paused = true)]
    async fn a_release_lowers_it() {
        let floor = floor();
        floor.lower(4);
        pass(OFTEN).await;
        let _ = floor.start();
        assert_eq!(floor.start().seq, Some(4));
    }
}
