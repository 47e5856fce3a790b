//! A dispatcher that no poll ever wakes, and what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    BoxFuture, Claim, Claimed, Local, Paused, Purge, Purged, Reaped, Settled, Store, Wakes,
};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, Handlers, Lease, MessageId, OwnerToken, Result, Running,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

/// Longer than anything takes on a machine that works at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What it handles, in order.
pub(crate) struct Listening {
    pub(crate) running: Running,
    handled: UnboundedReceiver<MessageId>,
}

impl Listening {
    /// Waits for the next message.
    pub(crate) async fn next(&mut self) -> MessageId {
        let next = timeout(PATIENCE, self.handled.recv()).await;
        next.expect("a wake-up comes long before the poll").expect("the dispatcher lives")
    }

    pub(crate) async fn shutdown(self) {
        assert!(self.running.shutdown(PATIENCE).await, "nothing was cut");
    }
}

/// A dispatcher that polls once an hour: whatever comes sooner was woken for.
pub(crate) fn listening<S: Store>(store: &Arc<S>) -> Listening {
    polling(store, Duration::from_hours(1))
}

pub(crate) fn polling<S: Store>(store: &Arc<S>, poll_interval: Duration) -> Listening {
    let (sender, handled) = unbounded_channel();
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        let _ = sender.send(delivery.message().id());
        async { Ok(()) }
    });
    let config = DispatcherConfig { poll_interval, ..DispatcherConfig::default() };
    let store = Arc::clone(store) as Arc<dyn Store>;
    let running = Dispatcher::new(store, handlers).config(config).start().expect("legal settings");
    Listening { running, handled }
}

/// Waits until a store hears of others in this way.
pub(crate) async fn until_wakes(store: &dyn Store, wanted: Wakes) {
    let waiting = async {
        while store.wakes() != wanted {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let came = timeout(PATIENCE, waiting).await;
    came.unwrap_or_else(|_| panic!("{:?} instead of {wanted:?}", store.wakes()));
}

/// A store that counts the claims that it passes on.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    store: Arc<S>,
    claims: AtomicUsize,
}

impl<S: Store> Counted<S> {
    pub(crate) fn new(store: &Arc<S>) -> Arc<Self> {
        Arc::new(Self { store: Arc::clone(store), claims: AtomicUsize::new(0) })
    }

    pub(crate) fn claims(&self) -> usize {
        self.claims.load(Ordering::SeqCst)
    }
}

impl<S: Store> Store for Counted<S> {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.store.claim(claim)
    }

    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>> {
        self.store.settle(owner, items)
    }

    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>> {
        self.store.renew(owner, leases, lease)
    }

    fn reap(&self, limit: u32, max_attempts: u32) -> BoxFuture<'_, Result<Reaped>> {
        self.store.reap(limit, max_attempts)
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        self.store.purge(purge)
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        self.store.leave(owner)
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        self.store.paused()
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        self.store.woken()
    }

    fn wake(&self) {
        self.store.wake();
    }

    fn local(&self) -> &Local {
        self.store.local()
    }
}

/// Two dispatchers with nothing to do: what they do in two seconds is a claim or two that was still
/// to come, and not one after another.
pub(crate) async fn come_to_rest<S: Store>(stores: [&Counted<S>; 2]) {
    let claims = || stores.map(Counted::claims);
    let before = claims();
    sleep(Duration::from_secs(2)).await;
    let after = claims();
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before <= 3, "{} claims with nothing to do", after - before);
    }
}
