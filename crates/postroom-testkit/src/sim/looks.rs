//! What people ask of the in-memory store, counted, and how it answers them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use postroom_core::Result;

use super::{SimStore, unavailable};

/// How a store answers who counts what is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answering {
    /// As it should.
    #[default]
    Well,
    /// The database is away.
    Failing,
    /// The database takes the question and never answers.
    Hanging,
}

#[derive(Debug, Default)]
pub(super) struct Looks {
    count: AtomicU64,
    answering: Mutex<Answering>,
}

impl SimStore {
    /// How often its figures were asked for: each of `stats`, `nodes`, `topics`, `failing`,
    /// `blocked_keys` and `pauses` counts, of both boxes.
    #[must_use]
    pub fn looks(&self) -> u64 {
        self.looks.count.load(Ordering::Relaxed)
    }

    /// How those are answered from now on, of both boxes.
    pub fn answer_looks(&self, answering: Answering) {
        *self.looks.answering.lock().unwrap_or_else(PoisonError::into_inner) = answering;
    }

    /// Counts one of them.
    pub(super) async fn looked(&self) -> Result<()> {
        self.looks.count.fetch_add(1, Ordering::Relaxed);
        let answering = *self.looks.answering.lock().unwrap_or_else(PoisonError::into_inner);
        match answering {
            Answering::Well => Ok(()),
            Answering::Failing => Err(unavailable()),
            Answering::Hanging => std::future::pending().await,
        }
    }
}
