//! The dispatcher on a real store, in real time, without faults: everything once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::store::{AdminStore, TransactionalStore};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, Handlers, Message, MessageId,
    Outbox, Retry,
};

/// Publishes `messages` from four tasks while two dispatchers run, polling as fast as they can. One
/// message in fifty fails at first.
///
/// # Panics
/// When a message is lost, or handled more often than its failures explain.
pub async fn everything_is_handled_once<S>(store: Arc<S>, messages: usize)
where
    S: TransactionalStore + AdminStore,
{
    let seen: Arc<Mutex<HashMap<MessageId, u32>>> = Arc::default();
    let start = || {
        let seen = Arc::clone(&seen);
        let handlers = Handlers::new().all(move |delivery: Delivery| {
            *seen.lock().expect("lock").entry(delivery.message().id()).or_default() += 1;
            async move {
                let fails = delivery.message().payload().as_ref() == b"fails at first";
                if fails && delivery.attempt() == 1 {
                    return Err(HandlerError::retry("not yet"));
                }
                Ok(())
            }
        });
        let config = DispatcherConfig {
            poll_interval: Duration::from_millis(1),
            retry: Retry { backoff: Backoff::Fixed(Duration::from_millis(5)), ..Retry::default() },
            ..DispatcherConfig::default()
        };
        let store = Arc::clone(&store) as Arc<dyn postroom_core::store::Store>;
        Dispatcher::new(store, handlers).config(config).start().expect("legal settings")
    };
    let dispatchers = [start(), start()];
    let publishers = (0..4).map(|_| {
        let outbox = Outbox::new(Arc::clone(&store));
        tokio::spawn(async move {
            for n in 0..messages / 40 {
                let tenth = (0..10).map(|i| {
                    let fails = (n * 10 + i) % 50 == 0;
                    Message::builder("t").payload(if fails { "fails at first" } else { "fine" })
                });
                outbox.publish_all(tenth).await.expect("publish");
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        publisher.await.expect("publisher");
    }
    let published = (messages / 40 * 40) as u64;
    while store.stats().await.expect("stats").done < published {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for dispatcher in dispatchers {
        assert!(dispatcher.shutdown(Duration::from_secs(30)).await, "nothing was cut");
    }
    let seen = seen.lock().expect("lock");
    let runs: u64 = seen.values().map(|runs| u64::from(*runs)).sum();
    let retried = seen.values().filter(|runs| **runs == 2).count() as u64;
    assert_eq!(seen.len() as u64, published, "every message was handled");
    let failing = 4 * (published / 4).div_ceil(50);
    assert_eq!(
        (retried, runs),
        (failing, published + failing),
        "and none more often than it failed"
    );
}

/// Publishes `messages` one by one from eight tasks. One dispatcher takes them from the commit; a
/// rival polls every millisecond for what it can get.
///
/// # Panics
/// When a message is handled twice or not at all, or when the rival gets one that was born leased.
pub async fn hot_messages_are_handled_once<S>(store: Arc<S>, messages: usize)
where
    S: TransactionalStore + AdminStore,
{
    type Seen = Arc<Mutex<HashMap<MessageId, u32>>>;
    let start = |seen: &Seen, hot_queue| {
        let seen = Arc::clone(seen);
        let handlers = Handlers::new().all(move |delivery: Delivery| {
            *seen.lock().expect("lock").entry(delivery.message().id()).or_default() += 1;
            async { Ok(()) }
        });
        let poll_interval = Duration::from_millis(1);
        let config = DispatcherConfig { poll_interval, hot_queue, ..DispatcherConfig::default() };
        let store = Arc::clone(&store) as Arc<dyn postroom_core::store::Store>;
        Dispatcher::new(store, handlers).config(config).start().expect("legal settings")
    };
    let (here, there) = (Seen::default(), Seen::default());
    let (hot, rival) = (start(&here, 1_000), start(&there, 0));
    let publishers = (0..8).map(|_| {
        let outbox = Outbox::new(Arc::clone(&store));
        tokio::spawn(async move {
            for _ in 0..messages / 8 {
                outbox.publish(Message::builder("t")).await.expect("publish");
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        publisher.await.expect("publisher");
    }
    let published = (messages / 8 * 8) as u64;
    while store.stats().await.expect("stats").done < published {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let dropped = hot.hot_dropped();
    for dispatcher in [hot, rival] {
        assert!(dispatcher.shutdown(Duration::from_secs(30)).await, "nothing was cut");
    }
    let mut runs = here.lock().expect("lock").clone();
    let there = there.lock().expect("lock").clone();
    assert!(there.len() as u64 <= dropped, "{} taken, {dropped} born ready", there.len());
    for (id, more) in there {
        *runs.entry(id).or_default() += more;
    }
    assert_eq!(runs.len() as u64, published, "every message was handled");
    assert!(runs.values().all(|runs| *runs == 1), "and none twice");
}
