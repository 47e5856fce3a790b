//! Processes that share a file wake each other.

use std::sync::Arc;
use std::time::Duration;

use crate::sqlite_harness::open_in;
use crate::wakes_support::{PATIENCE, come_to_rest, counted, listening, until_wakes};
use postroom_core::store::{AdminStore, Store, Wakes};
use postroom_core::{Message, Outbox};
use postroom_stores::{SqliteStore, StoreConfig};

#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_a_commit_of_another_process_wakes() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let (here, there) = (open_in(&folder).await, open_in(&folder).await);
    let mut dispatcher = listening(&there);
    until_wakes(&*there, Wakes::Listening).await;
    let outbox = Outbox::new(Arc::clone(&here));
    for _ in 0..5 {
        let published = outbox.publish(Message::builder("t")).await.expect("publish");
        assert_eq!(dispatcher.next().await, published.id);
    }
    assert_eq!(here.wakes(), Wakes::InProcess, "nobody waits there");
    dispatcher.shutdown().await;
}

/// Whoever writes to the file, in whatever way, is seen.
#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_a_plain_transaction_of_another_process_wakes() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let (here, there) = (open_in(&folder).await, open_in(&folder).await);
    let mut dispatcher = listening(&there);
    let outbox = Outbox::new(Arc::clone(&here));
    for key in ["a", "b", "a"] {
        let mut tx = here.writer().begin().await.expect("begins");
        let message = Message::builder("t").ordering_key(key);
        let published = outbox.publish_in(&mut tx, message).await.expect("publish");
        tx.commit().await.expect("commits");
        assert_eq!(dispatcher.next().await, published.id);
    }
    dispatcher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_idle_dispatchers_of_two_processes_come_to_rest() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let stores = [open_in(&folder).await, open_in(&folder).await];
    let [here, there] = stores.each_ref().map(counted);
    let dispatchers = [listening(&here), listening(&there)];
    let outbox = Outbox::new(Arc::clone(&stores[0]));
    for n in 0..20 {
        let message = Message::builder("t").ordering_key((n % 7).to_string());
        outbox.publish(message).await.expect("publish");
        outbox.publish(Message::builder("t")).await.expect("publish");
    }
    // And one that waits, for which claims keep looking after their slots.
    let later = Message::builder("t").ordering_key("later").due_after(Duration::from_hours(1));
    outbox.publish(later).await.expect("publish");
    tokio::time::timeout(PATIENCE, async {
        while stores[0].stats().await.expect("stats").done < 40 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("everything is handled");
    come_to_rest([&here, &there]).await;
    for dispatcher in dispatchers {
        dispatcher.shutdown().await;
    }
}

#[tokio::test]
async fn dsp_9_nobody_else_writes_to_memory() {
    let store = SqliteStore::in_memory(StoreConfig::default()).await.expect("open");
    store.migrate().await.expect("migrate");
    let store = Arc::new(store);
    let outbox = Outbox::new(Arc::clone(&store));
    let mut dispatcher = listening(&store);
    outbox.publish(Message::builder("t").ordering_key("k")).await.expect("publish");
    dispatcher.next().await;
    assert_eq!(store.wakes(), Wakes::InProcess);
    dispatcher.shutdown().await;
}
