//! What every round has in common.

use serde::{Deserialize, Serialize};

use crate::arguments::Arguments;
use crate::report::numbers::digits;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) messages: usize,
    pub(crate) rounds: usize,
    pub(crate) batch: u32,
    pub(crate) payload: usize,
}

impl Plan {
    pub(crate) fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let (messages, rounds) = if arguments.quick { (20_000, 3) } else { (200_000, 5) };
        Ok(Self {
            messages: usize::try_from(arguments.messages.unwrap_or(messages))?,
            rounds: usize::try_from(arguments.rounds.unwrap_or(rounds))?,
            batch: u32::try_from(arguments.batch)?,
            payload: usize::try_from(arguments.payload)?,
        })
    }

    /// The same with another number of messages.
    pub(crate) fn of(self, messages: usize) -> Self {
        Self { messages, ..self }
    }

    /// For the notes of a figure.
    pub(crate) fn sizes(self) -> String {
        let (messages, rounds) = (digits(self.messages as f64), self.rounds);
        format!("{messages} messages of {} B, {rounds} rounds", self.payload)
    }
}
