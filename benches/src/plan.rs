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
        let messages = if arguments.quick { 20_000 } else { 200_000 };
        Ok(Self {
            messages: usize::try_from(arguments.messages.unwrap_or(messages))?,
            rounds: usize::try_from(arguments.rounds)?,
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
        format!("{}, {} rounds", self.of_one_run(), self.rounds)
    }

    pub(crate) fn of_one_run(self) -> String {
        format!("{} messages of {} B", digits(self.messages as f64), self.payload)
    }
}
