//! A dispatcher on SQLite while somebody else keeps the only write lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::State;
use postroom_core::store::{AdminStore, TransactionalStore};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, Handlers, Message, MessageId, Outbox, Running,
};
use postroom_stores::{SqliteStore, StoreConfig};
use tokio::sync::watch;

const LEASE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// How messages come to the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Hot,
    Claimed,
    Ordered,
}

/// A caller's transaction is open for two leases. The dispatcher has handled what it held when the
/// lock is free again, and not settled any of it: nobody but itself could take that over, and it
/// must not.
///
/// How it is proved: every start of a handler is counted, in the only process that there is. They
/// all go on only when the lock is held and the poller waits for it, so that every settle has to
/// wait longer than its lease, and stands behind a claim that would find it expired.
async fn a_lock_outlasts_the_leases(way: Way) {
    let folder = tempfile::tempdir().expect("a temp folder");
    let path = folder.path().join("postroom.db");
    let open = async || {
        let path = path.to_str().expect("a plain path");
        Arc::new(SqliteStore::open(path, StoreConfig::default()).await.expect("open"))
    };
    let (store, other) = (open().await, open().await);
    store.migrate().await.expect("migrate");
    let (go, wait) = watch::channel(false);
    let starts = Starts::default();
    let running = start(&store, &starts, wait);
    let some = (0..20).map(|n| match way {
        Way::Ordered => Message::builder("t").ordering_key((n % 5).to_string()),
        Way::Hot | Way::Claimed => Message::builder("t"),
    });
    let publisher = if way == Way::Hot { &store } else { &other };
    let all = Outbox::new(Arc::clone(publisher)).publish_all(some).await.expect("publish");
    while store.stats().await.expect("stats").leased < 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let lock = other.begin().await.expect("the lock");
    tokio::time::sleep(POLL * 20).await;
    go.send(true).expect("handlers wait");
    tokio::time::sleep(LEASE * 2).await;
    drop(lock);
    while store.stats().await.expect("stats").done < 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(running.shutdown(LEASE).await);
    let starts = starts.lock().expect("lock").clone();
    for published in all {
        let record = store.get(published.id).await.expect("get").expect("it is there").record;
        let came = (record.state, record.attempts, starts[&published.id]);
        assert_eq!(came, (State::Done, 0, 1), "lost {} leases", record.lost);
    }
}

/// How often each message was started.
type Starts = Arc<Mutex<HashMap<MessageId, u32>>>;

/// A dispatcher whose handlers wait for a word.
fn start(store: &Arc<SqliteStore>, starts: &Starts, wait: watch::Receiver<bool>) -> Running {
    let starts = Arc::clone(starts);
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        *starts.lock().expect("lock").entry(delivery.message().id()).or_default() += 1;
        let mut wait = wait.clone();
        async move {
            let _ = wait.wait_for(|go| *go).await;
            Ok(())
        }
    });
    let config = DispatcherConfig {
        // More than messages: a claim may take back what ran out, for those who are idle.
        workers: 30,
        lease: LEASE,
        handler_timeout: LEASE * 9 / 10,
        poll_interval: POLL,
        ..DispatcherConfig::default()
    };
    let dispatcher = Dispatcher::new(Arc::clone(store) as _, handlers).config(config);
    dispatcher.start().expect("legal settings")
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_12_a_lock_that_outlasts_the_leases_repeats_no_hot_message() {
    a_lock_outlasts_the_leases(Way::Hot).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_12_a_lock_that_outlasts_the_leases_repeats_no_claimed_message() {
    a_lock_outlasts_the_leases(Way::Claimed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_12_a_lock_that_outlasts_the_leases_repeats_no_ordered_message() {
    a_lock_outlasts_the_leases(Way::Ordered).await;
}
