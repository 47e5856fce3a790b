//! Room for claimed messages: this dispatcher's own, and its part of what many stores share.

use std::pin::pin;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::fleet::room::{self, LENT_AFTER, Turn};

/// Where one message is until it is settled.
#[derive(Debug)]
pub(super) struct Place {
    _own: OwnedSemaphorePermit,
    _shared: Option<room::Place>,
}

impl From<OwnedSemaphorePermit> for Place {
    fn from(own: OwnedSemaphorePermit) -> Self {
        Self { _own: own, _shared: None }
    }
}

/// Room for a claim.
#[derive(Debug)]
pub(super) struct Places {
    own: OwnedSemaphorePermit,
    turn: Option<Turn>,
}

impl Places {
    /// As many as both have.
    pub(super) fn new(mut own: OwnedSemaphorePermit, turn: Option<Turn>) -> Self {
        if let Some(turn) = &turn {
            let surplus = own.num_permits().saturating_sub(turn.granted());
            drop(own.split(surplus));
        }
        Self { own, turn }
    }

    pub(super) fn count(&self) -> usize {
        self.own.num_permits()
    }

    /// Waits for a claim, but keeps no shared room from others while that takes long.
    pub(super) async fn during<T>(&mut self, claim: impl Future<Output = T>) -> T {
        let mut claim = pin!(claim);
        let Some(turn) = &mut self.turn else { return claim.await };
        if let Ok(answer) = timeout(LENT_AFTER, claim.as_mut()).await {
            return answer;
        }
        turn.lend();
        claim.await
    }

    /// A place for each message that was claimed; the rest is free again.
    pub(super) fn claimed(mut self, count: usize) -> impl Iterator<Item = Place> {
        let count = count.min(self.count());
        let mut shared = self.turn.map(|turn| turn.claimed(count).into_iter());
        std::iter::from_fn(move || {
            let own = self.own.split(1)?;
            Some(Place { _own: own, _shared: shared.as_mut().and_then(Iterator::next) })
        })
        .take(count)
    }
}
