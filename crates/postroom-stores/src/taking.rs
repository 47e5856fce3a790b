//! A claim at work on a server: what both kinds of rows have in common.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use postroom_core::lifecycle::{DeadReason, Settlement};
use postroom_core::store::tenants::Rotation;
use postroom_core::store::{Claim, Claimed, WorkItem};
use postroom_core::{Lane, Lease, LeaseToken, Result, WorkId};

const UNDECODABLE: Settlement =
    Settlement::Dead { reason: DeadReason::Undecodable, counted: false, error: None };

/// Whose turn it is: of the ordered and the unordered rows, of the keys, and of the tenants.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    ordered_first: AtomicBool,
    last_key: Mutex<Option<Lane>>,
    rotation: Mutex<Rotation>,
}

impl Turn {
    pub(crate) fn last_key(&self) -> MutexGuard<'_, Option<Lane>> {
        self.last_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn rotation(&self) -> MutexGuard<'_, Rotation> {
        self.rotation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left to take, and what is taken.
pub(crate) struct Taking<'a> {
    pub(crate) claim: &'a Claim,
    pub(crate) token: LeaseToken,
    pub(crate) room: u32,
    pub(crate) suspects: u32,
    claimed: Claimed,
    /// Rows that can not be decoded, and what comes behind them in their key.
    pub(crate) refused: Vec<(Lease, Settlement)>,
    broken_keys: HashSet<i64>,
}

/// What a statement says of the rows that it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) taken: u32,
    pub(crate) suspects: u32,
    pub(crate) dead: u32,
}

/// How a store takes rows of each kind.
pub(crate) trait Takes: Sync {
    fn turn(&self) -> &Turn;

    /// Takes rows without an ordering key. Answers whether there are others.
    fn take_unordered(&self, taking: &mut Taking<'_>) -> impl Future<Output = Result<bool>> + Send;

    /// Takes the first rows of keys.
    fn take_ordered(&self, taking: &mut Taking<'_>) -> impl Future<Output = Result<()>> + Send;
}

impl<'a> Taking<'a> {
    pub(crate) fn new(claim: &'a Claim) -> Self {
        Self {
            claim,
            token: LeaseToken::random(),
            room: claim.batch(),
            suspects: claim.max_suspects(),
            claimed: Claimed::default(),
            refused: Vec::new(),
            broken_keys: HashSet::new(),
        }
    }

    /// Takes rows of both kinds, which take turns in coming first.
    pub(crate) async fn take_from(&mut self, store: &impl Takes) -> Result<()> {
        let taken = self.take_both(store).await;
        // What was leased before an error is the caller's; the error will come again.
        if self.has_something() { Ok(()) } else { taken }
    }

    async fn take_both(&mut self, store: &impl Takes) -> Result<()> {
        let ordered = self.claim.wants_ordered();
        if ordered && store.turn().ordered_first.swap(false, Ordering::Relaxed) {
            store.take_ordered(self).await?;
            if self.wants_more() {
                store.take_unordered(self).await?;
            }
            return Ok(());
        }
        let ordered_work = store.take_unordered(self).await? && ordered;
        if ordered_work {
            store.turn().ordered_first.store(true, Ordering::Relaxed);
            if self.wants_more() {
                store.take_ordered(self).await?;
            }
        }
        Ok(())
    }

    fn wants_more(&self) -> bool {
        self.room > 0 && !(self.claim.is_quick() && self.has_something())
    }

    fn has_something(&self) -> bool {
        !self.claimed.items.is_empty() || !self.refused.is_empty() || self.claimed.dead > 0
    }

    /// Takes note of what a statement took, before its items are added.
    pub(crate) fn count(&mut self, summary: Summary) {
        self.room = self.room.saturating_sub(summary.taken);
        self.suspects = self.suspects.saturating_sub(summary.suspects);
        self.claimed.dead += summary.dead;
    }

    /// Adds a row; what can not be read is refused, for whatever reason, and with it what comes
    /// behind in its key: it must not fail its batch.
    pub(crate) fn add(
        &mut self,
        seq: i64,
        key: Option<i64>,
        read: impl FnOnce(Lease) -> Result<WorkItem>,
    ) {
        let lease = Lease { work: WorkId::new(seq), token: self.token };
        if key.is_some_and(|key| self.broken_keys.contains(&key)) {
            self.refused.push((lease, Settlement::Release));
            return;
        }
        match read(lease) {
            Ok(item) => self.claimed.items.push(item),
            Err(_) => {
                self.refused.push((lease, UNDECODABLE));
                self.broken_keys.extend(key);
            }
        }
    }

    /// The answer, when so many of the refused ones were not ours any more.
    pub(crate) fn finish(mut self, lost: usize) -> Claimed {
        let dead = self.refused.iter().filter(|(_, settlement)| *settlement == UNDECODABLE);
        self.claimed.dead += dead.count().saturating_sub(lost) as u32;
        self.claimed
    }
}
