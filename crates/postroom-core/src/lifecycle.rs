//! The state machine, as pure functions: what a bad attempt or a lost lease does to a work item.
//!
//! Stores carry out what is decided here and decide nothing themselves. SQL that must count a lost
//! lease in place does what [`after_lost_lease`] says; the conformance suite holds it to that.

use std::time::Duration;

use crate::retry::{Retry, clamp};

/// The four states of a work item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Can be claimed, now or at its next attempt.
    Ready,
    /// Somebody holds a lease on it.
    Leased,
    /// Delivered. Final.
    Done,
    /// Will not be tried again until a person replays it.
    Dead,
}

impl State {
    /// Whether the state machine has this arrow.
    #[must_use]
    pub fn may_become(self, next: Self) -> bool {
        use State::{Dead, Done, Leased, Ready};
        matches!(
            (self, next),
            (Ready, Leased | Dead) | (Leased, Done | Ready | Dead | Leased) | (Dead, Ready)
        )
    }
}

/// Why a message is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// Its attempts are used up.
    Attempts,
    /// The handler or sink said that retrying will not help.
    Permanent,
    /// Its leases ran out again and again: it probably kills its process.
    LostLeases,
    /// It was not delivered before its expiry.
    Expired,
    /// Its row can not be decoded.
    Undecodable,
    /// A person discarded it.
    Discarded,
}

impl DeadReason {
    /// All reasons, in the order of their codes.
    pub const ALL: [Self; 6] = [
        Self::Attempts,
        Self::Permanent,
        Self::LostLeases,
        Self::Expired,
        Self::Undecodable,
        Self::Discarded,
    ];

    /// The number that stores keep.
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Self::Attempts => 1,
            Self::Permanent => 2,
            Self::LostLeases => 3,
            Self::Expired => 4,
            Self::Undecodable => 5,
            Self::Discarded => 6,
        }
    }

    /// The reason behind a stored number; unknown ones come from a newer version.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }

    /// The word that people see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attempts => "attempts used up",
            Self::Permanent => "permanent error",
            Self::LostLeases => "lost leases",
            Self::Expired => "expired",
            Self::Undecodable => "undecodable",
            Self::Discarded => "discarded",
        }
    }
}

/// How handling a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect.
    Done,
    /// It did not, and may the next time.
    Failed(String),
    /// It never will.
    Permanent(String),
    /// Try again after this long; `counted` says whether this was an attempt.
    RetryAfter {
        /// The wait.
        delay: Duration,
        /// Whether it counts as an attempt.
        counted: bool,
        /// Why.
        error: String,
    },
    /// It was never tried: give it back.
    Unstarted,
}

/// What a store is told to do with a leased item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Done, for ever.
    Done,
    /// Ready again after a wait.
    Retry {
        /// The wait, by the database's clock.
        delay: Duration,
        /// Whether it counts as an attempt.
        counted: bool,
        /// Why.
        error: Option<String>,
    },
    /// Dead.
    Dead {
        /// Why, as a word.
        reason: DeadReason,
        /// Whether the attempt that ended it counts.
        counted: bool,
        /// Why, as a text.
        error: Option<String>,
    },
    /// Ready at once, as if it had never been claimed.
    Release,
}

/// What follows from an outcome for an item with so many bad attempts behind it.
#[must_use]
pub fn settle(outcome: Outcome, attempts: u32, retry: &Retry, unit: f64) -> Settlement {
    match outcome {
        Outcome::Done => Settlement::Done,
        Outcome::Unstarted => Settlement::Release,
        Outcome::Permanent(error) => {
            Settlement::Dead { reason: DeadReason::Permanent, counted: true, error: some(error) }
        }
        Outcome::Failed(error) => {
            let delay = retry.delay(attempts.saturating_add(1), unit);
            counted_retry(attempts, retry.max_attempts, delay, error)
        }
        Outcome::RetryAfter { delay, counted: true, error } => {
            counted_retry(attempts, retry.max_attempts, clamp(delay), error)
        }
        Outcome::RetryAfter { delay, counted: false, error } => {
            Settlement::Retry { delay: clamp(delay), counted: false, error: some(error) }
        }
    }
}

fn counted_retry(attempts: u32, max_attempts: u32, delay: Duration, error: String) -> Settlement {
    let error = some(error);
    if attempts.saturating_add(1) >= max_attempts {
        Settlement::Dead { reason: DeadReason::Attempts, counted: true, error }
    } else {
        Settlement::Retry { delay, counted: true, error }
    }
}

fn some(error: String) -> Option<String> {
    Some(error).filter(|text| !text.is_empty())
}

/// The counters of an item after its lease ran out, and whether that was once too often.
///
/// The first lost lease is nobody's fault and adds no attempt; every further one does.
#[must_use]
pub fn after_lost_lease(attempts: u32, lost: u32, max_attempts: u32) -> LostLease {
    let attempts = if lost == 0 { attempts } else { attempts.saturating_add(1) };
    let dead = lost > 0 && attempts >= max_attempts;
    LostLease { attempts, lost: lost.saturating_add(1), dead }
}

/// See [`after_lost_lease`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLease {
    /// Deliveries that ended badly.
    pub attempts: u32,
    /// Leases that ran out.
    pub lost: u32,
    /// Whether the item is dead now.
    pub dead: bool,
}

/// The longest error text that a store keeps, in characters.
pub const MAX_ERROR_CHARS: usize = 2_000;

/// Cuts an error text at a character boundary; an empty one is none. NUL, which PostgreSQL cannot
/// store, becomes the replacement character.
#[must_use]
pub fn cut_error(error: Option<&str>, max_chars: usize) -> Option<String> {
    let error = error.filter(|text| !text.is_empty())?;
    let cut = error.char_indices().nth(max_chars).map_or(error, |(end, _)| &error[..end]);
    Some(cut.replace('\0', "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(max_attempts: u32) -> Retry {
        Retry { max_attempts, ..Retry::default() }
    }

    #[test]
    fn dsp_7_dead_when_attempts_reach_the_maximum() {
        let fail = || Outcome::Failed("boom".to_owned());
        assert!(matches!(settle(fail(), 1, &retry(3), 0.5), Settlement::Retry { .. }));
        assert_eq!(
            settle(fail(), 2, &retry(3), 0.5),
            Settlement::Dead {
                reason: DeadReason::Attempts,
                counted: true,
                error: Some("boom".to_owned())
            }
        );
    }

    #[test]
    fn dsp_5_permanent_is_dead_at_once_and_unstarted_is_given_back() {
        let dead = settle(Outcome::Permanent(String::new()), 0, &retry(10), 0.5);
        assert_eq!(
            dead,
            Settlement::Dead { reason: DeadReason::Permanent, counted: true, error: None }
        );
        assert_eq!(settle(Outcome::Unstarted, 9, &retry(10), 0.5), Settlement::Release);
    }

    #[test]
    fn dsp_5_retry_after_counts_only_when_it_says_so() {
        let after = |counted| Outcome::RetryAfter {
            delay: Duration::from_secs(7),
            counted,
            error: "busy".to_owned(),
        };
        assert!(matches!(settle(after(false), 99, &retry(3), 0.5), Settlement::Retry { .. }));
        assert!(matches!(settle(after(true), 99, &retry(3), 0.5), Settlement::Dead { .. }));
    }

    #[test]
    fn wq_8_a_message_that_kills_its_process_runs_at_most_max_plus_one_times() {
        for max in 1..=10 {
            let (mut attempts, mut lost, mut runs) = (0, 0, 0);
            loop {
                runs += 1;
                let after = after_lost_lease(attempts, lost, max);
                (attempts, lost) = (after.attempts, after.lost);
                if after.dead {
                    break;
                }
            }
            assert_eq!(runs, max + 1, "max {max}");
        }
    }

    #[test]
    fn wq_6_errors_are_cut_at_a_character_boundary() {
        assert_eq!(cut_error(Some("äöü"), 2).as_deref(), Some("äö"));
        assert_eq!(cut_error(Some("ab"), 2).as_deref(), Some("ab"));
        assert_eq!(cut_error(Some("a\0b"), 9).as_deref(), Some("a\u{fffd}b"));
        assert_eq!(cut_error(Some(""), 2), None);
    }

    #[test]
    fn the_state_machine_has_no_other_arrows() {
        use State::{Dead, Done, Leased, Ready};
        let all = [Ready, Leased, Done, Dead];
        let arrows = all.iter().flat_map(|a| all.iter().filter(|b| a.may_become(**b))).count();
        assert_eq!(arrows, 7);
        assert!(all.iter().all(|next| !Done.may_become(*next)), "done is final");
    }

    #[test]
    fn reasons_survive_their_codes() {
        for reason in DeadReason::ALL {
            assert_eq!(DeadReason::from_code(reason.code()), Some(reason));
        }
        assert_eq!(DeadReason::from_code(99), None);
    }
}
