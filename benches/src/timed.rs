//! A store that takes the time of claims.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    BoxFuture, Claim, Claimed, Heartbeat, Local, Paused, Purge, Purged, Reaped, Settled, Store,
    Wakes,
};
use postroom_core::{Lease, OwnerToken, Result};

use crate::lock;

/// A claim that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) took: Duration,
    pub(crate) items: usize,
}

/// Hands everything on.
#[derive(Debug)]
pub(crate) struct Timed<S> {
    inner: Arc<S>,
    claims: Mutex<Vec<Taken>>,
}

impl<S> Timed<S> {
    pub(crate) fn new(inner: Arc<S>) -> Self {
        Self { inner, claims: Mutex::default() }
    }

    /// The claims since the last call.
    pub(crate) fn take(&self) -> Vec<Taken> {
        std::mem::take(&mut *lock(&self.claims))
    }
}

impl<S: Store> Store for Timed<S> {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(async move {
            let began = Instant::now();
            let claimed = self.inner.claim(claim).await?;
            let taken = Taken { took: began.elapsed(), items: claimed.items.len() };
            lock(&self.claims).push(taken);
            Ok(claimed)
        })
    }

    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>> {
        self.inner.settle(owner, items)
    }

    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>> {
        self.inner.renew(owner, leases, lease)
    }

    fn reap(&self, limit: u32, max_attempts: u32) -> BoxFuture<'_, Result<Reaped>> {
        self.inner.reap(limit, max_attempts)
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        self.inner.purge(purge)
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        self.inner.leave(owner)
    }

    fn report<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<()>> {
        self.inner.report(heartbeat)
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        self.inner.paused()
    }

    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        self.inner.next_due()
    }

    fn identity(&self) -> BoxFuture<'_, Result<String>> {
        self.inner.identity()
    }

    fn halts(&self) -> bool {
        self.inner.halts()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.inner.woken()
    }

    fn wake(&self) {
        self.inner.wake();
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }

    fn local(&self) -> &Local {
        self.inner.local()
    }
}
