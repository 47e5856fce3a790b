//! Something around the calls of a store: to delay them, count them or take note of them.

mod transaction;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    BoxFuture, Claim, Claimed, Heartbeat, Local, Paused, Purge, Purged, Reaped, Settled, Store,
    Wakes,
};
use postroom_core::{Lease, OwnerToken, Result};
pub use transaction::{Step, SteppedTx};

/// What happens around a call. Each method gets the call and gives back what is done instead.
pub trait Around: fmt::Debug + Send + Sync + 'static {
    /// Around [`Store::claim`].
    fn claim<'a>(&'a self, call: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        call
    }

    /// Around [`Store::settle`] of these items.
    fn settle<'a>(
        &'a self,
        items: &'a [(Lease, Settlement)],
        call: BoxFuture<'a, Result<Settled>>,
    ) -> BoxFuture<'a, Result<Settled>> {
        let _ = items;
        call
    }

    /// Around [`Store::renew`].
    fn renew<'a>(&'a self, call: BoxFuture<'a, Result<Settled>>) -> BoxFuture<'a, Result<Settled>> {
        call
    }

    /// Around [`Store::reap`].
    fn reap<'a>(&'a self, call: BoxFuture<'a, Result<Reaped>>) -> BoxFuture<'a, Result<Reaped>> {
        call
    }

    /// Around [`Store::report`].
    fn report<'a>(&'a self, call: BoxFuture<'a, Result<()>>) -> BoxFuture<'a, Result<()>> {
        call
    }

    /// Around [`Store::paused`].
    fn paused<'a>(&'a self, call: BoxFuture<'a, Result<Paused>>) -> BoxFuture<'a, Result<Paused>> {
        call
    }

    /// When a transaction comes to this step. It goes on when the answer is there.
    fn step(&self, step: Step) -> BoxFuture<'_, ()> {
        let _ = step;
        Box::pin(std::future::ready(()))
    }
}

/// A store with something around it. Publish through it or through the store itself: both share
/// their hot queue.
#[derive(Debug)]
pub struct Wrapped<S, A> {
    store: Arc<S>,
    around: Arc<A>,
}

impl<S: Store, A: Around> Wrapped<S, A> {
    /// The store with this around it.
    #[must_use]
    pub fn new(store: Arc<S>, around: A) -> Self {
        Self { store, around: Arc::new(around) }
    }

    /// What is around it.
    #[must_use]
    pub fn around(&self) -> &A {
        &self.around
    }
}

impl<S: Store, A: Around> Store for Wrapped<S, A> {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>> {
        self.around.claim(self.store.claim(claim))
    }

    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>> {
        self.around.settle(items, self.store.settle(owner, items))
    }

    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>> {
        self.around.renew(self.store.renew(owner, leases, lease))
    }

    fn reap(&self, limit: u32, max_attempts: u32) -> BoxFuture<'_, Result<Reaped>> {
        self.around.reap(self.store.reap(limit, max_attempts))
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        self.store.purge(purge)
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        self.store.leave(owner)
    }

    fn report<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<()>> {
        self.around.report(self.store.report(heartbeat))
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        self.around.paused(self.store.paused())
    }

    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        self.store.next_due()
    }

    fn identity(&self) -> BoxFuture<'_, Result<String>> {
        self.store.identity()
    }

    fn halts(&self) -> bool {
        self.store.halts()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.store.woken()
    }

    fn wake(&self) {
        self.store.wake();
    }

    fn wakes(&self) -> Wakes {
        self.store.wakes()
    }

    fn local(&self) -> &Local {
        self.store.local()
    }
}
