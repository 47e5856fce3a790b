//! The dispatcher on a real store, in real time, its processes unharmed: everything once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::store::{AdminStore, BoxFuture, Claimed, TransactionalStore};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, Handlers, Message, MessageId,
    Outbox, Retry,
};
use tokio::time::Instant;

use crate::around::{Around, Wrapped};

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

/// Publishes `messages` from eight tasks, `per_commit` in a transaction. One dispatcher takes them
/// from the commit; a rival polls every millisecond for what it can get.
///
/// # Panics
/// When a message is handled twice or not at all, or when the rival gets one that was born leased.
pub async fn hot_messages_are_handled_once<S>(store: Arc<S>, messages: usize, per_commit: usize)
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
            for _ in 0..messages / 8 / per_commit {
                let some = (0..per_commit).map(|_| Message::builder("t"));
                outbox.publish_all(some).await.expect("publish");
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        publisher.await.expect("publisher");
    }
    let published = (messages / 8 / per_commit * per_commit * 8) as u64;
    while store.stats().await.expect("stats").done < published {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let dropped = hot.snapshot().counts.hot_dropped;
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

/// Publishes 50 messages to a handler that fails for as long as it is `away`.
///
/// # Panics
/// When a try comes before its time or long after it, when there are more claims than tries and
/// polls explain, or when something is not done in the end.
pub async fn a_handler_that_is_away<S>(store: Arc<S>, away: Duration)
where
    S: TransactionalStore + AdminStore,
{
    let tries: Arc<Mutex<HashMap<MessageId, Vec<Instant>>>> = Arc::default();
    let (notes, back) = (Arc::clone(&tries), Instant::now() + away);
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        let now = Instant::now();
        notes.lock().expect("lock").entry(delivery.message().id()).or_default().push(now);
        async move {
            match now < back {
                true => Err(HandlerError::retry("away")),
                false => Ok(()),
            }
        }
    });
    let retry = Retry { max_attempts: 30, ..Retry::default() };
    let config = DispatcherConfig { retry: retry.clone(), ..DispatcherConfig::default() };
    let poll = config.poll_interval;
    let claims = Arc::new(AtomicUsize::new(0));
    let counted = Arc::new(Wrapped::new(Arc::clone(&store), CountClaims(Arc::clone(&claims))));
    let running = Dispatcher::new(counted, handlers).config(config).start().expect("legal");
    let began = Instant::now();
    let outbox = Outbox::new(Arc::clone(&store));
    outbox.publish_all((0..50).map(|_| Message::builder("t"))).await.expect("publish");
    let stats = loop {
        let stats = store.stats().await.expect("stats");
        if stats.ready + stats.waiting + stats.leased == 0 {
            break stats;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(stats.done, 50, "{stats:?}");
    let polls = began.elapsed().as_millis() / poll.mul_f64(0.8).as_millis() + 10;
    assert!(running.shutdown(Duration::from_secs(30)).await, "nothing was cut");
    let tries = tries.lock().expect("lock");
    for tries in tries.values() {
        for (k, (one, next)) in (1..).zip(tries.iter().zip(&tries[1..])) {
            let (passed, least) = (*next - *one, retry.delay(k, 0.0));
            // Generous: a machine that is busy elsewhere is late with everything.
            let most = retry.delay(k, 1.0) + Duration::from_secs(5);
            assert!(passed >= least && passed <= most, "try {k} + 1 after {passed:?}");
        }
    }
    // At most a claim for every try, and one after it that finds nothing.
    let tries: usize = tries.values().map(Vec::len).sum();
    let claims = claims.load(Ordering::Relaxed);
    assert!(claims <= 2 * tries + polls as usize, "{claims} claims for {tries} tries");
}

#[derive(Debug)]
struct CountClaims(Arc<AtomicUsize>);

impl Around for CountClaims {
    fn claim<'a>(
        &'a self,
        call: BoxFuture<'a, postroom_core::Result<Claimed>>,
    ) -> BoxFuture<'a, postroom_core::Result<Claimed>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        call
    }
}

/// Publishes `messages` of a large tenant and then one of a small tenant, and starts a dispatcher
/// with batches of `batch`. Answers how many of the large one's had been started when the small
/// one's was handled.
///
/// # Panics
/// When the store or the dispatcher fails.
pub async fn started_before_a_small_tenants<S>(store: Arc<S>, messages: usize, batch: u32) -> usize
where
    S: TransactionalStore,
{
    let outbox = Outbox::new(Arc::clone(&store));
    for chunk in (0..messages).collect::<Vec<_>>().chunks(5_000) {
        let large = chunk.iter().map(|_| Message::builder("t").tenant_id("large"));
        outbox.publish_all(large).await.expect("publish");
    }
    outbox.publish(Message::builder("t").tenant_id("small")).await.expect("publish");
    let started = Arc::new(AtomicUsize::new(0));
    let (sender, mut handled) = tokio::sync::mpsc::unbounded_channel();
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        let small = delivery.message().tenant_id().is_some_and(|id| id.as_str() == "small");
        let before = started.fetch_add(usize::from(!small), Ordering::SeqCst);
        if small {
            let _ = sender.send(before);
        }
        async { Ok(()) }
    });
    let config = DispatcherConfig { batch, ..DispatcherConfig::default() };
    let dispatcher = Dispatcher::new(store as Arc<dyn postroom_core::store::Store>, handlers);
    let running = dispatcher.config(config).start().expect("legal settings");
    let before = handled.recv().await.expect("the small one's is handled");
    running.shutdown(Duration::from_secs(30)).await;
    before
}

/// Publishes `messages` on `keys` ordering keys while dispatchers come and go; one message in
/// twenty fails at first.
///
/// # Panics
/// When one is lost, comes before an earlier one of its key, or beside another one.
pub async fn order_holds<S>(store: Arc<S>, messages: usize, keys: usize)
where
    S: TransactionalStore + AdminStore,
{
    let log: OrderLog = Arc::default();
    let start = || {
        let config = DispatcherConfig {
            workers: 16,
            poll_interval: Duration::from_millis(20),
            retry: Retry { backoff: Backoff::Fixed(Duration::from_millis(5)), ..Retry::default() },
            ..DispatcherConfig::default()
        };
        let store = Arc::clone(&store) as Arc<dyn postroom_core::store::Store>;
        let dispatcher = Dispatcher::new(store, in_order(&log)).config(config);
        dispatcher.start().expect("legal settings")
    };
    let (first, second) = (start(), start());
    let publisher = tokio::spawn({
        let outbox = Outbox::new(Arc::clone(&store));
        async move {
            for n in 0..messages / keys {
                let round = (0..keys).map(|key| {
                    let builder = Message::builder("t").ordering_key(key.to_string());
                    builder.payload(n.to_string())
                });
                outbox.publish_all(round).await.expect("publish");
            }
        }
    });
    let published = (messages / keys * keys) as u64;
    let until = async |done: u64| {
        while store.stats().await.expect("stats").done < done {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until(published / 3).await;
    assert!(first.shutdown(Duration::from_secs(30)).await, "nothing was cut");
    until(published / 2).await;
    let third = start();
    publisher.await.expect("publisher");
    until(published).await;
    for dispatcher in [second, third] {
        assert!(dispatcher.shutdown(Duration::from_secs(30)).await, "nothing was cut");
    }
    let log = log.lock().expect("lock");
    let expected: Vec<_> = (0..messages / keys).collect();
    assert_eq!(log.len(), keys);
    assert!(log.values().all(|(_, handled)| *handled == expected));
}

/// Per key: whether one is being handled, and which were.
type OrderLog = Arc<Mutex<HashMap<String, (bool, Vec<usize>)>>>;

fn in_order(log: &OrderLog) -> Handlers {
    let log = Arc::clone(log);
    Handlers::new().all(move |delivery: Delivery| {
        let log = Arc::clone(&log);
        async move {
            let message = delivery.message();
            let key = message.ordering_key().expect("ordered").to_string();
            let n: usize = String::from_utf8_lossy(message.payload()).parse().expect("a number");
            let busy = |is: bool| {
                let mut log = log.lock().expect("lock");
                std::mem::replace(&mut log.entry(key.clone()).or_default().0, is)
            };
            assert!(!busy(true), "two of {key} at once");
            tokio::task::yield_now().await;
            busy(false);
            if n.is_multiple_of(20) && delivery.attempt() == 1 {
                return Err(HandlerError::retry("not yet"));
            }
            log.lock().expect("lock").entry(key).or_default().1.push(n);
            Ok(())
        }
    })
}
