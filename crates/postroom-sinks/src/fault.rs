//! Why a receiver did not take a message.

use std::fmt;
use std::time::Duration;

use postroom_core::lifecycle::Outcome;

/// Why a receiver did not take a message, and whose fault that is. It decides what the failure
/// costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing was sent, because nobody is there. Costs no attempt, so that no outage of a broker,
    /// however long, makes a dead letter.
    Unreachable {
        /// When to try again.
        after: Duration,
        /// What happened.
        why: String,
    },
    /// It was sent, and refused or not answered; the next time it may work. Costs an attempt, since
    /// the message itself may be what breaks the connection.
    Transient(String),
    /// The receiver asks for time. Costs no attempt.
    Throttled {
        /// How much it asks for.
        after: Duration,
        /// What it said.
        why: String,
    },
    /// It will never be taken: too large, a name that the protocol does not have, nobody to route
    /// it to.
    Permanent(String),
}

impl Fault {
    /// A fault that the next attempt may not have.
    pub fn transient(why: impl ToString) -> Self {
        Self::Transient(why.to_string())
    }

    /// A fault that every attempt will have.
    pub fn permanent(why: impl ToString) -> Self {
        Self::Permanent(why.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient(why) | Self::Permanent(why) => f.write_str(why),
            Self::Unreachable { why, .. } | Self::Throttled { why, .. } => f.write_str(why),
        }
    }
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreachable { after, why } | Fault::Throttled { after, why } => {
                Self::RetryAfter { delay: after, counted: false, error: why }
            }
            Fault::Transient(why) => Self::Failed(why),
            Fault::Permanent(why) => Self::Permanent(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rly_2_an_outage_costs_no_attempt_and_a_refusal_does() {
        let after = Duration::from_secs(3);
        let why = || "no".to_owned();
        let uncounted = Outcome::RetryAfter { delay: after, counted: false, error: why() };
        assert_eq!(Outcome::from(Fault::Unreachable { after, why: why() }), uncounted);
        assert_eq!(Outcome::from(Fault::Throttled { after, why: why() }), uncounted);
        assert_eq!(Outcome::from(Fault::transient("no")), Outcome::Failed(why()));
        assert_eq!(Outcome::from(Fault::permanent("no")), Outcome::Permanent(why()));
    }
}
