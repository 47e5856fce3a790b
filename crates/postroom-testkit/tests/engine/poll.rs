//! How the poller claims, over the in-memory store, under paused time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::store::{BoxFuture, Claimed};
use postroom_core::{Delivery, Dispatcher, DispatcherConfig, Handlers, Message, Outbox, Result};
use postroom_testkit::SimStore;
use postroom_testkit::around::{Around, Wrapped};
use tokio::time::sleep;

/// How many items each claim got.
#[derive(Debug, Default)]
struct Sizes(Arc<Mutex<Vec<usize>>>);

impl Around for Sizes {
    fn claim<'a>(&'a self, call: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(async move {
            let claimed = call.await?;
            self.0.lock().expect("lock").push(claimed.items.len());
            Ok(claimed)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_9_a_full_process_claims_half_batches_and_not_every_place_alone() {
    let store = Arc::new(SimStore::default().ticking());
    let messages = (0..2_000).map(|_| Message::builder("t"));
    Outbox::new(Arc::clone(&store)).publish_all(messages).await.expect("publish");
    let sizes = Sizes::default();
    let seen = Arc::clone(&sizes.0);
    let store = Arc::new(Wrapped::new(store, sizes));
    let handled: Arc<AtomicUsize> = Arc::default();
    let count = Arc::clone(&handled);
    let handlers = Handlers::new().all(move |_: Delivery| {
        count.fetch_add(1, Ordering::Relaxed);
        async {
            sleep(Duration::from_millis(1)).await;
            Ok(())
        }
    });
    let config =
        DispatcherConfig { workers: 4, batch: 80, cold_queue: 200, ..DispatcherConfig::default() };
    let running = Dispatcher::new(store, handlers).config(config).start().expect("starts");
    while handled.load(Ordering::Relaxed) < 2_000 {
        sleep(Duration::from_millis(10)).await;
    }
    running.shutdown(Duration::from_secs(1)).await;
    let sizes: Vec<_> = seen.lock().expect("lock").iter().copied().filter(|n| *n > 0).collect();
    // Until it knows how fast it is, it takes whatever is free.
    let later = &sizes[sizes.len() * 3 / 4..];
    let average = later.iter().sum::<usize>() / later.len();
    assert!(average >= 40, "{average} per claim: {sizes:?}");
}
