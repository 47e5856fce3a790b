//! What a sink knows about a receiver that is away.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postroom_core::observe::Circuit;
use tokio::time::Instant;

use crate::fault::Fault;

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Keeps a sink from knocking at a door that nobody opens: after a failure to connect it answers at
/// once, and lets one caller try again from time to time, after 200 ms at first and 10 s at most.
///
/// It logs when the receiver goes away and when it is back, and nothing in between.
#[derive(Debug)]
pub struct Breaker {
    name: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    last: Option<Instant>,
    /// Nobody tries before this.
    closed_until: Option<Instant>,
}

impl Breaker {
    /// For the receiver with this name, which appears in logs.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), state: Mutex::default() }
    }

    /// Whether to try now. Of many that ask while the receiver is away, one may when the time has
    /// come, and the others wait for what becomes of it.
    ///
    /// # Errors
    /// [`Fault::Unreachable`] when not.
    pub fn check(&self) -> Result<(), Fault> {
        let mut state = self.lock();
        let Some(until) = state.closed_until else { return Ok(()) };
        let now = Instant::now();
        if until > now {
            let why = format!("{} is away", self.name);
            return Err(Fault::Unreachable { after: until - now, why });
        }
        // This one tries.
        state.closed_until = Some(now + wait(state.failures));
        Ok(())
    }

    /// It was there.
    pub fn reached(&self) {
        let mut state = self.lock();
        if state.failures > 0 {
            tracing::info!(sink = %self.name, failures = state.failures, "SINK_BACK");
        }
        *state = State::default();
    }

    /// It was not. The text must hold no secret. What many see at the same time counts once.
    pub fn missed(&self, why: impl ToString) -> Fault {
        let why = why.to_string();
        let mut state = self.lock();
        if state.failures == 0 {
            tracing::warn!(sink = %self.name, error = %why, "SINK_AWAY");
        }
        let now = Instant::now();
        if state.last.is_none_or(|last| now >= last + FIRST_WAIT) {
            state.failures = state.failures.saturating_add(1);
            state.last = Some(now);
        }
        let after = wait(state.failures);
        state.closed_until = Some(now + after);
        Fault::Unreachable { after, why }
    }

    /// Whether anybody may try now, for those who look.
    #[must_use]
    pub fn circuit(&self) -> Circuit {
        match self.lock().closed_until {
            None => Circuit::Closed,
            Some(until) if until > Instant::now() => Circuit::Open,
            Some(_) => Circuit::HalfOpen,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait(failures: u32) -> Duration {
    let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(fault: &Fault) -> Duration {
        match fault {
            Fault::Unreachable { after, .. } => *after,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dsp_12_one_tries_again_and_the_others_wait() {
        let breaker = Breaker::new("broker");
        breaker.check().expect("nothing is known yet");
        assert_eq!(breaker.circuit(), Circuit::Closed);
        assert_eq!(after(&breaker.missed("refused")), FIRST_WAIT);
        assert_eq!(breaker.circuit(), Circuit::Open);
        assert_eq!(after(&breaker.check().expect_err("away")), FIRST_WAIT);
        tokio::time::advance(FIRST_WAIT).await;
        assert_eq!(breaker.circuit(), Circuit::HalfOpen);
        breaker.check().expect("the one that tries");
        breaker.check().expect_err("the others");
        assert_eq!(after(&breaker.missed("refused")), 2 * FIRST_WAIT);
        tokio::time::advance(2 * FIRST_WAIT).await;
        breaker.check().expect("the one that tries");
        breaker.reached();
        assert_eq!(breaker.circuit(), Circuit::Closed);
        breaker.check().expect("it is back");
        breaker.check().expect("for all");
    }

    #[tokio::test(start_paused = true)]
    async fn dsp_12_what_many_see_at_the_same_time_counts_once() {
        let breaker = Breaker::new("broker");
        for _ in 0..16 {
            assert_eq!(after(&breaker.missed("refused")), FIRST_WAIT);
        }
        tokio::time::advance(FIRST_WAIT).await;
        assert_eq!(after(&breaker.missed("refused")), 2 * FIRST_WAIT);
    }

    #[test]
    fn dsp_12_the_wait_grows_to_a_bound() {
        assert_eq!(wait(1), FIRST_WAIT);
        assert_eq!(wait(3), 4 * FIRST_WAIT);
        assert_eq!(wait(u32::MAX), LONGEST_WAIT);
    }
}
