//! What happened lately: deliveries that ended well or badly, second by second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Throughput;

// Five minutes and the second that is under way.
const SECONDS: usize = 301;

#[derive(Debug)]
pub(super) struct Windows {
    began: Instant,
    ring: Mutex<[Second; SECONDS]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Second {
    number: u64,
    done: u64,
    failed: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Self { began: Instant::now(), ring: Mutex::new([Second::default(); SECONDS]) }
    }
}

impl Windows {
    pub(super) fn add(&self, done: u64, failed: u64) {
        let number = self.began.elapsed().as_secs();
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let second = &mut ring[number as usize % SECONDS];
        if second.number != number {
            *second = Second { number, ..Second::default() };
        }
        second.done += done;
        second.failed += failed;
    }

    /// The last `window`, or what there was of it. The second that is under way counts too.
    pub(super) fn last(&self, window: Duration) -> Throughput {
        let passed = self.began.elapsed();
        let (now, seconds) = (passed.as_secs(), window.as_secs().min(SECONDS as u64 - 1));
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = ring.iter().filter(|second| second.number + seconds > now);
        let (done, failed) =
            recent.fold((0, 0), |(done, failed), s| (done + s.done, failed + s.failed));
        let span = passed.as_secs_f64().min(seconds as f64).max(1.0);
        let ended = done + failed;
        Throughput {
            done,
            failed,
            per_second: done as f64 / span,
            failure_ratio: if ended == 0 { 0.0 } else { failed as f64 / ended as f64 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn obs_2_a_window_forgets_what_is_older() {
        let windows = Windows::default();
        windows.add(30, 10);
        let minute = Duration::from_secs(60);
        assert_eq!(windows.last(minute).failure_ratio, 0.25);
        tokio::time::advance(Duration::from_secs(59)).await;
        windows.add(30, 0);
        let last = windows.last(minute);
        assert_eq!((last.done, last.failed), (60, 10));
        tokio::time::advance(Duration::from_secs(1)).await;
        let last = windows.last(minute);
        assert_eq!((last.done, last.failed, last.per_second), (30, 0, 0.5));
        assert_eq!(windows.last(Duration::from_secs(300)).done, 60);
        // Where the ring comes round, old seconds are not mistaken for new ones.
        tokio::time::advance(Duration::from_secs(600)).await;
        assert_eq!(windows.last(Duration::from_secs(300)), Throughput::default());
    }
}
