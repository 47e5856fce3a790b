//! Something is away for a while: what a dispatcher does meanwhile, exactly.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::store::{AdminStore, BoxFuture, Settled};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, Error, ErrorKind, Handlers, Message, Outbox,
    OwnerToken, Result, WorkQueue,
};
use postroom_testkit::around::{Around, Wrapped};
use postroom_testkit::{SimStore, dispatch};
use tokio::time::{Instant, sleep};

/// F15, B23: a broker that is away for a minute.
#[tokio::test(start_paused = true)]
async fn dsp_7_an_outage_of_the_handler_is_met_with_backoff_and_then_all_is_done() {
    let store = Arc::new(SimStore::default().ticking());
    dispatch::a_handler_that_is_away(store, Duration::from_secs(60)).await;
}

/// The first renewal is answered late, and none after it.
#[derive(Debug, Default)]
struct LateRenewal(AtomicU32);

const LATE: Duration = Duration::from_secs(3);

impl Around for LateRenewal {
    fn renew<'a>(&'a self, call: BoxFuture<'a, Result<Settled>>) -> BoxFuture<'a, Result<Settled>> {
        let first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move {
            if !first {
                return Err(Error::new(ErrorKind::Unavailable, "away"));
            }
            let answer = call.await;
            sleep(LATE).await;
            answer
        })
    }
}

/// The database counts the lease from when it gets the renewal, so this process must count from
/// before: with an answer that takes 3 s and a margin of 1 s, counting from there would go on with
/// a message 2 s after somebody else may have it.
#[tokio::test(start_paused = true)]
async fn wq_7_a_renewal_counts_from_when_it_was_sent() {
    let store = Arc::new(SimStore::default().ticking());
    let outbox = Outbox::new(Arc::clone(&store));
    outbox
        .publish_all([Message::builder("first"), Message::builder("second")])
        .await
        .expect("both");
    let began = Instant::now();
    let cut = Arc::new(Mutex::new(None));
    let note = Arc::clone(&cut);
    // The second one waits for the first, so that its time limit ends long after its lease.
    let handlers = Handlers::new()
        .topic("first", |_| async {
            sleep(Duration::from_secs(8)).await;
            Ok(())
        })
        .topic("second", move |_: Delivery| {
            let note = NoteDrop(Arc::clone(&note), began);
            async move {
                let _note = note;
                std::future::pending().await
            }
        });
    let config = DispatcherConfig {
        workers: 1,
        lease: Duration::from_secs(10),
        handler_timeout: Duration::from_millis(9_900),
        poll_interval: Duration::from_mins(10),
        ..DispatcherConfig::default()
    };
    let store = Arc::new(Wrapped::new(store, LateRenewal::default()));
    let running = Dispatcher::new(store, handlers).config(config).start().expect("legal settings");
    sleep(Duration::from_secs(17)).await;
    let cut = cut.lock().expect("lock").expect("it was cut before its time limit");
    // Renewed 3.3 s after the claim, so over 13.3 s after it there, and a margin earlier here.
    assert!(cut > Duration::from_secs(12) && cut < Duration::from_millis(12_400), "{cut:?}");
    running.shutdown(Duration::from_secs(1)).await;
}

/// One of them may be what killed the process, and it must not have the others killed again: that
/// would cost them an attempt. None waits for the next poll either.
#[tokio::test(start_paused = true)]
async fn wq_8_what_a_dead_process_held_is_run_one_after_the_other() {
    let store = Arc::new(SimStore::default().ticking());
    let outbox = Outbox::new(Arc::clone(&store));
    outbox.publish_all((0..20).map(|_| Message::builder("t"))).await.expect("publish");
    let (lease, dead) = (Duration::from_secs(10), OwnerToken::random());
    let queue = WorkQueue::new(Arc::clone(&store) as _);
    assert_eq!(queue.claim(dead, lease, 20).await.expect("claim").items.len(), 20);
    let at_once = Arc::new(Mutex::new((0, 0)));
    let count = Arc::clone(&at_once);
    let handlers = Handlers::new().all(move |_: Delivery| {
        let count = Arc::clone(&count);
        let add = move |n: i32| {
            let mut count = count.lock().expect("lock");
            *count = (count.0 + n, count.1.max(count.0 + n));
        };
        async move {
            add(1);
            sleep(Duration::from_millis(100)).await;
            add(-1);
            Ok(())
        }
    });
    let config = DispatcherConfig { workers: 8, ..DispatcherConfig::default() };
    let running = Dispatcher::new(Arc::clone(&store) as _, handlers).config(config).start();
    // The lease, the longest wait of an idle poller, and twenty times the handler's time.
    sleep(lease + Duration::from_secs(5) + Duration::from_millis(2_500)).await;
    assert_eq!(store.stats().await.expect("stats").done, 20);
    assert_eq!(at_once.lock().expect("lock").1, 1);
    running.expect("legal settings").shutdown(Duration::from_secs(1)).await;
}

/// Writes down when it is dropped first, which is when the handler is cut.
struct NoteDrop(Arc<Mutex<Option<Duration>>>, Instant);

impl Drop for NoteDrop {
    fn drop(&mut self) {
        self.0.lock().expect("lock").get_or_insert(self.1.elapsed());
    }
}
