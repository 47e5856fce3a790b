//! When to try again, and when to stop. Pure: the jitter comes in as a number.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long to wait after each bad attempt, and how many there may be.
///
/// ```
/// use postroom_core::Retry;
/// use std::time::Duration;
///
/// let retry = Retry::default();
/// assert_eq!(retry.delay(1, 0.5), Duration::from_millis(200));
/// assert_eq!(retry.delay(4, 0.5), Duration::from_millis(1_600));
/// assert_eq!(retry.delay(4_000_000_000, 0.5), Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
pub struct Retry {
    /// The wait before the next try. Default: exponential, 200 ms doubling up to 60 s, with jitter.
    pub backoff: Backoff,
    /// Dead when this many attempts ended badly. Default: 10; at least 1.
    pub max_attempts: u32,
}

/// The shape of the wait.
#[derive(Clone)]
#[non_exhaustive]
pub enum Backoff {
    /// `min(cap, base × 2^(k−1)) × jitter`, jitter between 0.5 and 1.5.
    Exponential {
        /// The wait after the first bad attempt.
        base: Duration,
        /// The longest wait, before jitter.
        cap: Duration,
    },
    /// `min(2^k s, 60 s)`, no jitter.
    PowersOfTwo,
    /// Always the same.
    Fixed(Duration),
    /// Whatever the function says for the k-th bad attempt (k starts at 1).
    Custom(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl Retry {
    /// The wait after the `k`-th bad attempt (k starts at 1); `unit` is a random number in `[0,
    /// 1)`.
    #[must_use]
    pub fn delay(&self, k: u32, unit: f64) -> Duration {
        let k = k.max(1);
        let delay = match &self.backoff {
            Backoff::Exponential { base, cap } => {
                doubled(*base, k - 1).min(*cap).mul_f64(0.5 + unit.clamp(0.0, 1.0))
            }
            Backoff::PowersOfTwo => doubled(Duration::from_secs(1), k).min(Duration::from_secs(60)),
            Backoff::Fixed(delay) => *delay,
            Backoff::Custom(delay) => delay(k),
        };
        clamp(delay)
    }
}

impl Retry {
    /// The longest time from the first attempt to the last, when all of them fail at once. For so
    /// long a receiver must remember a message by its id, to recognise it when it comes again.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        // Beyond so many the sum says nothing any more.
        let waits = (1..self.max_attempts.min(10_000)).map(|k| self.delay(k, 1.0));
        waits.fold(Duration::ZERO, Duration::saturating_add)
    }
}

// A wait is never zero, so that a failing message can not spin, and never overflows a timestamp.
const SHORTEST: Duration = Duration::from_micros(1);
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

/// A wait that is neither none nor for ever.
pub(crate) fn clamp(delay: Duration) -> Duration {
    delay.clamp(SHORTEST, LONGEST)
}

fn doubled(base: Duration, times: u32) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    base.saturating_mul(factor).min(LONGEST)
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            backoff: Backoff::Exponential {
                base: Duration::from_millis(200),
                cap: Duration::from_secs(60),
            },
            max_attempts: 10,
        }
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential { base, cap } => {
                f.debug_struct("Exponential").field("base", base).field("cap", cap).finish()
            }
            Self::PowersOfTwo => f.write_str("PowersOfTwo"),
            Self::Fixed(delay) => f.debug_tuple("Fixed").field(delay).finish(),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(backoff: Backoff) -> Retry {
        Retry { backoff, ..Retry::default() }
    }

    #[test]
    fn dsp_7_the_delay_doubles_up_to_the_cap() {
        let retry = Retry::default();
        let millis: Vec<_> = (1..=12).map(|k| retry.delay(k, 0.5).as_millis()).collect();
        let expected =
            [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 60_000, 60_000, 60_000];
        assert_eq!(millis, expected);
    }

    #[test]
    fn dsp_7_jitter_spreads_from_half_to_one_and_a_half() {
        let retry = Retry::default();
        assert_eq!(retry.delay(1, 0.0), Duration::from_millis(100));
        assert_eq!(retry.delay(1, 1.0), Duration::from_millis(300));
    }

    #[test]
    fn b32_the_horizon_is_the_time_to_the_last_attempt() {
        assert_eq!(Retry::default().horizon().as_millis(), 153_300, "1.5 times 102.2 s");
        assert_eq!(Retry { max_attempts: 1, ..Retry::default() }.horizon(), Duration::ZERO);
        let forever = Retry { max_attempts: u32::MAX, backoff: Backoff::Fixed(LONGEST) };
        assert!(forever.horizon() > LONGEST);
    }

    #[test]
    fn dsp_7_the_seeds_policy_is_shipped() {
        let retry = of(Backoff::PowersOfTwo);
        let secs: Vec<_> = (1..=7).map(|k| retry.delay(k, 0.9).as_secs()).collect();
        assert_eq!(secs, [2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn dsp_7_fixed_and_custom_do_as_told_but_never_zero() {
        assert_eq!(of(Backoff::Fixed(Duration::from_secs(3))).delay(9, 0.0).as_secs(), 3);
        assert!(of(Backoff::Fixed(Duration::ZERO)).delay(1, 0.0) > Duration::ZERO);
        let squares = of(Backoff::Custom(Arc::new(|k| Duration::from_secs((k * k).into()))));
        assert_eq!(squares.delay(5, 0.0).as_secs(), 25);
    }

    proptest! {
        #[test]
        fn dsp_7_overflow_is_impossible(k: u32, unit in 0.0..1.0f64, base_ms: u64, cap_ms: u64) {
            let backoff = Backoff::Exponential {
                base: Duration::from_millis(base_ms),
                cap: Duration::from_millis(cap_ms),
            };
            let delay = of(backoff).delay(k, unit);
            prop_assert!(delay > Duration::ZERO && delay <= LONGEST);
        }
    }
}
