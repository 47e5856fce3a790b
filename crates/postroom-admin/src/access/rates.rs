//! How often somebody may ask.

use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::StatusCode;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::guesses::Guesses;
use crate::problem::Problem;

/// How much may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one person per second; twice as many at once. Default 50.
    pub requests: NonZeroU32,
    /// Changes of one person per second; twice as many at once. Default 5.
    pub changes: NonZeroU32,
    /// Live streams at a time, of everybody together. Default 64.
    pub streams: usize,
    /// Different wrong tokens from one address within a minute. After that only tokens that were
    /// right from there before are looked at. Default 10.
    pub guesses: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Self {
        let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self { requests: number(50), changes: number(5), streams: 64, guesses: number(10) }
    }
}

/// What was asked lately. There are as many keys as there are names of tokens.
pub(crate) struct Rates {
    requests: DefaultKeyedRateLimiter<String>,
    changes: DefaultKeyedRateLimiter<String>,
    pub(crate) guesses: Guesses,
}

impl Rates {
    pub(crate) fn new(limits: Limits) -> Self {
        let quota =
            |rate: NonZeroU32| Quota::per_second(rate).allow_burst(rate.saturating_mul(TWO));
        const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
        Self {
            requests: RateLimiter::keyed(quota(limits.requests)),
            changes: RateLimiter::keyed(quota(limits.changes)),
            guesses: Guesses::new(limits.guesses),
        }
    }

    pub(crate) fn check(&self, name: &str, is_change: bool) -> Result<(), Problem> {
        let limiter = if is_change { &self.changes } else { &self.requests };
        limiter.check_key(&name.to_owned()).map_err(|refused| {
            let wait = refused.wait_time_from(DefaultClock::default().now());
            too_many(wait, "too many requests")
        })
    }
}

pub(super) fn too_many(wait: Duration, what: &str) -> Problem {
    let seconds = wait.as_secs() + 1;
    let told = format!("{what}; try again in {seconds} s");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", told);
    problem.retry_after(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x17_one_who_asks_too_often_does_not_stop_others() {
        let rates = Rates::new(Limits::default());
        let asked = (0..1_000).take_while(|_| rates.check("a", true).is_ok()).count();
        assert!((10..100).contains(&asked), "{asked}");
        rates.check("a", false).expect("looking is counted apart");
        rates.check("b", true).expect("another person");
    }
}
