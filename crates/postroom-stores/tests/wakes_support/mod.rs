//! A dispatcher that no poll ever wakes, and what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom_core::store::{BoxFuture, Claimed, Store, Wakes};
use postroom_core::{Delivery, Dispatcher, DispatcherConfig, Handlers, MessageId, Result, Running};
use postroom_testkit::around::{Around, Wrapped};
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

/// Counts the claims that it passes on.
#[derive(Debug, Default)]
pub(crate) struct Claims(AtomicUsize);

impl Around for Claims {
    fn claim<'a>(&'a self, call: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        call
    }
}

pub(crate) type Counted<S> = Wrapped<S, Claims>;

pub(crate) fn counted<S: Store>(store: &Arc<S>) -> Arc<Counted<S>> {
    Arc::new(Wrapped::new(Arc::clone(store), Claims::default()))
}

pub(crate) fn claims<S: Store>(store: &Counted<S>) -> usize {
    store.around().0.load(Ordering::SeqCst)
}

/// Two dispatchers with nothing to do: what they do in two seconds is a claim or two that was still
/// to come, and not one after another.
pub(crate) async fn come_to_rest<S: Store>(stores: [&Counted<S>; 2]) {
    let count = || stores.map(claims);
    let before = count();
    sleep(Duration::from_secs(2)).await;
    let after = count();
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before <= 3, "{} claims with nothing to do", after - before);
    }
}
