//! How often somebody may ask.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::time::Instant;

use crate::problem::Problem;

/// Failed logins within a minute, of everybody together.
const FAILED_LOGINS: usize = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// How much may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one person per second; twice as many at once. Default 50.
    pub requests: NonZeroU32,
    /// Changes of one person per second; twice as many at once. Default 5.
    pub changes: NonZeroU32,
    /// Live streams at a time, of everybody together. Default 64.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let number = |n| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        Self { requests: number(50), changes: number(5), streams: 64 }
    }
}

/// What was asked lately. There are as many keys as there are names of tokens.
pub(crate) struct Rates {
    requests: DefaultKeyedRateLimiter<String>,
    changes: DefaultKeyedRateLimiter<String>,
    failed_logins: Mutex<VecDeque<Instant>>,
}

impl Rates {
    pub(crate) fn new(limits: Limits) -> Self {
        let quota =
            |rate: NonZeroU32| Quota::per_second(rate).allow_burst(rate.saturating_mul(TWO));
        const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
        Self {
            requests: RateLimiter::keyed(quota(limits.requests)),
            changes: RateLimiter::keyed(quota(limits.changes)),
            failed_logins: Mutex::new(VecDeque::with_capacity(FAILED_LOGINS)),
        }
    }

    pub(crate) fn check(&self, name: &str, is_change: bool) -> Result<(), Problem> {
        let limiter = if is_change { &self.changes } else { &self.requests };
        limiter.check_key(&name.to_owned()).map_err(|refused| {
            let wait = refused.wait_time_from(DefaultClock::default().now());
            too_many(wait, "too many requests")
        })
    }

    /// Refuses further tries after too many that failed.
    pub(crate) fn may_log_in(&self, now: Instant) -> Result<(), Problem> {
        let mut failed = self.failed_logins.lock().unwrap_or_else(PoisonError::into_inner);
        failed.retain(|at| now.duration_since(*at) < MINUTE);
        match failed.front() {
            Some(first) if failed.len() >= FAILED_LOGINS => {
                let wait = MINUTE.saturating_sub(now.duration_since(*first));
                Err(too_many(wait, "too many failed logins"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn login_failed(&self, now: Instant) {
        self.failed_logins.lock().unwrap_or_else(PoisonError::into_inner).push_back(now);
    }
}

fn too_many(wait: Duration, what: &str) -> Problem {
    let seconds = wait.as_secs() + 1;
    let told = format!("{what}; try again in {seconds} s");
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", told);
    problem.retry_after(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x17_after_five_failed_logins_the_sixth_waits() {
        let (rates, now) = (Rates::new(Limits::default()), Instant::now());
        for _ in 0..FAILED_LOGINS {
            rates.may_log_in(now).expect("not yet");
            rates.login_failed(now);
        }
        let refused = rates.may_log_in(now).expect_err("too many");
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        rates.may_log_in(now + MINUTE).expect("a minute later");
    }

    #[test]
    fn x17_one_who_asks_too_often_does_not_stop_others() {
        let rates = Rates::new(Limits::default());
        let asked = (0..1_000).take_while(|_| rates.check("a", true).is_ok()).count();
        assert!((10..100).contains(&asked), "{asked}");
        rates.check("a", false).expect("looking is counted apart");
        rates.check("b", true).expect("another person");
    }
}
