//! The public work queue, for people who build their own workers, and the only way the dispatcher
//! itself touches the database.
//!
//! It checks arguments before any I/O, runs victims of contention again within a bound, and knows
//! when an answer was lost.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::contention::again_on_contention;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{Lease, OwnerToken};
use crate::lifecycle::{self, DeadReason, MAX_ERROR_CHARS, Outcome, Settlement};
use crate::retry::Retry;
use crate::store::{Claim, Claimed, Purge, Purged, Reaped, Settled, Store, WorkItem, check_lease};

/// Claims work and settles it, fenced by leases. Cheap to clone.
///
/// ```
/// # use postroom_core::{store::Store, OwnerToken, Result, WorkQueue};
/// # use std::{sync::Arc, time::Duration};
/// async fn turn(store: Arc<dyn Store>) -> Result<()> {
///     let queue = WorkQueue::new(store);
///     let me = OwnerToken::random();
///     let claimed = queue.claim(me, Duration::from_secs(30), 50).await?;
///     let leases: Vec<_> = claimed.items.iter().map(|item| item.lease).collect();
///     let settled = queue.ack(me, &leases).await?;
///     assert_eq!(settled.applied + settled.lost.len(), leases.len());
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct WorkQueue {
    store: Arc<dyn Store>,
    retry: Retry,
    max_error_chars: usize,
}

impl WorkQueue {
    /// A queue on this store with the default retry policy.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, retry: Retry::default(), max_error_chars: MAX_ERROR_CHARS }
    }

    /// Another retry policy.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Cuts stored errors to this many characters. Default 2,000.
    #[must_use]
    pub fn max_error_chars(mut self, chars: usize) -> Self {
        self.max_error_chars = chars;
        self
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Leases up to `batch` items to `owner`; at most one of them is a suspect.
    ///
    /// # Errors
    /// `Invalid` for a zero lease or batch, before any I/O; `Contention` or `Unavailable` when the
    /// database can not answer now.
    ///
    /// # Cancel safety
    /// Items claimed by a cancelled call come back when their lease runs out.
    pub async fn claim(&self, owner: OwnerToken, lease: Duration, batch: u32) -> Result<Claimed> {
        let claim = Claim::new(owner, lease, batch)?.max_attempts(self.retry.max_attempts);
        self.claim_with(&claim).await
    }

    /// Leases what the request asks for.
    ///
    /// # Errors
    /// `Contention` or `Unavailable` when the database can not answer now.
    pub async fn claim_with(&self, claim: &Claim) -> Result<Claimed> {
        again_on_contention(|| self.store.claim(claim)).await
    }

    /// Done.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn ack(&self, owner: OwnerToken, leases: &[Lease]) -> Result<Settled> {
        self.settle(owner, with(leases, &Settlement::Done)).await
    }

    /// Tried and failed: ready again after the retry policy's delay, or dead when that was the
    /// last.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn abandon(
        &self,
        owner: OwnerToken,
        items: &[WorkItem],
        error: &str,
    ) -> Result<Settled> {
        let settlements = items.iter().map(|item| {
            let outcome = Outcome::Failed(error.to_owned());
            let unit = clock::random_unit();
            (item.lease, lifecycle::settle(outcome, item.attempts, &self.retry, unit))
        });
        self.settle(owner, settlements.collect()).await
    }

    /// Tried and failed: ready again after `delay`, one attempt more.
    ///
    /// # Errors
    /// `Invalid` for a zero delay; else as [`settle`](Self::settle).
    pub async fn abandon_for(
        &self,
        owner: OwnerToken,
        leases: &[Lease],
        delay: Duration,
        error: &str,
    ) -> Result<Settled> {
        if delay < Duration::from_micros(1) {
            return Err(Error::limit("delay", "more than 0", format_args!("{delay:?}")));
        }
        let error = Some(error.to_owned());
        self.settle(owner, with(leases, &Settlement::Retry { delay, counted: true, error })).await
    }

    /// Will never work: dead.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn fail(&self, owner: OwnerToken, leases: &[Lease], error: &str) -> Result<Settled> {
        let settlement = Settlement::Dead {
            reason: DeadReason::Permanent,
            counted: true,
            error: Some(error.to_owned()),
        };
        self.settle(owner, with(leases, &settlement)).await
    }

    /// Never tried: ready at once, no attempt.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn release(&self, owner: OwnerToken, leases: &[Lease]) -> Result<Settled> {
        self.settle(owner, with(leases, &Settlement::Release)).await
    }

    /// Settles mixed outcomes in one transaction.
    ///
    /// Foreign, unknown, already settled and repeated items are ignored; the answer names those
    /// that were not applied, so a worker learns that it lost a lease. An empty list touches
    /// nothing.
    ///
    /// # Errors
    /// `Contention` or `Unavailable` when the database can not answer now: call again, the fence
    /// makes that safe.
    pub async fn settle(
        &self,
        owner: OwnerToken,
        items: Vec<(Lease, Settlement)>,
    ) -> Result<Settled> {
        let items = self.prepared(items);
        if items.is_empty() {
            return Ok(Settled::default());
        }
        match again_on_contention(|| self.store.settle(owner, &items)).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                // The answer may have been lost after the effect: what does not apply now may have
                // applied then.
                let settled = again_on_contention(|| self.store.settle(owner, &items)).await?;
                Ok(Settled { unknown: settled.lost, lost: Vec::new(), ..settled })
            }
            answer => answer,
        }
    }

    /// Extends leases that have not run out to `lease` from now.
    ///
    /// # Errors
    /// `Invalid` for a zero lease; `Contention` or `Unavailable` when the database can not answer
    /// now.
    pub async fn renew(
        &self,
        owner: OwnerToken,
        leases: &[Lease],
        lease: Duration,
    ) -> Result<Settled> {
        check_lease(lease)?;
        let mut seen = HashSet::new();
        let leases: Vec<_> = leases.iter().copied().filter(|lease| seen.insert(*lease)).collect();
        if leases.is_empty() {
            return Ok(Settled::default());
        }
        again_on_contention(|| self.store.renew(owner, &leases, lease)).await
    }

    /// Returns up to `limit` expired leases to ready, or to dead past the maximum.
    ///
    /// # Errors
    /// `Invalid` for a zero limit; `Contention` or `Unavailable` when the database can not answer
    /// now.
    pub async fn reap(&self, limit: u32) -> Result<Reaped> {
        check_limit(limit)?;
        again_on_contention(|| self.store.reap(limit, self.retry.max_attempts)).await
    }

    /// Deletes what is old enough, one bounded chunk.
    ///
    /// # Errors
    /// `Invalid` for a zero limit; `Contention` or `Unavailable` when the database can not answer
    /// now.
    pub async fn purge(&self, purge: &Purge) -> Result<Purged> {
        check_limit(purge.limit)?;
        self.store.local().check_purge(purge)?;
        again_on_contention(|| self.store.purge(purge)).await
    }

    fn prepared(&self, items: Vec<(Lease, Settlement)>) -> Vec<(Lease, Settlement)> {
        let mut seen = HashSet::with_capacity(items.len());
        let first = items.into_iter().filter(|(lease, _)| seen.insert(*lease));
        first.map(|(lease, settlement)| (lease, self.cut(settlement))).collect()
    }

    fn cut(&self, settlement: Settlement) -> Settlement {
        let cut =
            |error: Option<String>| lifecycle::cut_error(error.as_deref(), self.max_error_chars);
        match settlement {
            Settlement::Retry { delay, counted, error } => {
                Settlement::Retry { delay, counted, error: cut(error) }
            }
            Settlement::Dead { reason, counted, error } => {
                Settlement::Dead { reason, counted, error: cut(error) }
            }
            other => other,
        }
    }
}

fn with(leases: &[Lease], settlement: &Settlement) -> Vec<(Lease, Settlement)> {
    leases.iter().map(|lease| (*lease, settlement.clone())).collect()
}

fn check_limit(limit: u32) -> Result<()> {
    if limit == 0 || limit > Claim::MAX_BATCH {
        let allowed = format_args!("1 to {}", Claim::MAX_BATCH).to_string();
        return Err(Error::limit("limit", allowed, limit));
    }
    Ok(())
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("store", &self.store).finish_non_exhaustive()
    }
}
