//! The acceptance tests of the specification that the hot path comes from, under their own names.
//!
//! Its words are ours like this: NEW and RETRY are ready (with attempts), DONE and DEAD are done
//! and dead, a listener is a handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, BoxFuture, Claimed, Record, Store, TransactionalStore};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, Error, ErrorKind, Event, HandlerError,
    Handlers, Message, MessageId, Outbox, Result, Retry,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::Harness;
use crate::around::{Around, Wrapped};

/// A transaction of the driver's, a published message, a rollback: there is no row.
///
/// # Panics
/// When there is one.
pub async fn atomicity<H: Harness>(harness: &H) {
    let (store, mut conn) = (harness.store(), harness.connection().await);
    let outbox = Outbox::new(Arc::clone(&store));
    harness.begin(&mut conn).await;
    let id = outbox.publish_in(&mut conn, Message::builder("t")).await.expect("publish").id;
    harness.rollback(&mut conn).await;
    drop(conn);
    assert!(store.get(id).await.expect("get").is_none());
}

/// A commit goes to the dispatcher of the process, is handled and is done, without a claim.
///
/// # Panics
/// When it is not.
pub async fn commit_and_fast_path<S: TransactionalStore + AdminStore>(store: Arc<S>) {
    let handled = Arc::new(AtomicU32::new(0));
    let poller = Poller::default();
    let running = start(&store, poller, counting(&handled), DispatcherConfig::default());
    let mut tx = Outbox::new(Arc::clone(&store)).begin().await.expect("begin");
    let id = tx.publish(Message::builder("t")).expect("legal");
    tx.commit().await.expect("commit");
    assert_eq!(until(&*store, id, State::Done).await.processed_by, Some(running.owner()));
    assert_eq!(handled.load(Ordering::SeqCst), 1);
    assert!(running.shutdown(Duration::from_secs(5)).await);
}

/// A hot queue that is full: publishing is fine, the row is ready, and once the poller polls it is
/// done.
///
/// # Panics
/// When it is not so.
pub async fn queue_overflow_downgrade<S: TransactionalStore + AdminStore>(store: Arc<S>) {
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let handlers = Handlers::new().all(move |_: Delivery| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.map_err(HandlerError::retry)?.forget();
            Ok(())
        }
    });
    let poller = Poller::default();
    let config = DispatcherConfig { hot_queue: 1, ..DispatcherConfig::default() };
    let running = start(&store, poller.clone(), handlers, config);
    let outbox = Outbox::new(Arc::clone(&store));
    let hot = outbox.publish(Message::builder("t")).await.expect("publish").id;
    let dropped = outbox.publish(Message::builder("t")).await.expect("publishing is fine").id;
    assert_eq!(record(&*store, hot).await.state, State::Leased);
    assert_eq!(record(&*store, dropped).await.state, State::Ready);
    assert_eq!(running.snapshot().counts.hot_dropped, 1);
    poller.0.store(true, Ordering::SeqCst);
    opens.add_permits(2);
    for id in [hot, dropped] {
        assert_eq!(until(&*store, id, State::Done).await.attempts, 0);
    }
    assert!(running.shutdown(Duration::from_secs(5)).await);
}

/// A handler that always fails: attempts count up while it is tried again, then it is dead.
///
/// # Panics
/// When it is not so.
pub async fn retry_dead<S: TransactionalStore + AdminStore>(store: Arc<S>) {
    let backoff = Backoff::Fixed(Duration::from_millis(100));
    let retry = Retry { backoff, max_attempts: 3 };
    let config = DispatcherConfig { retry, ..DispatcherConfig::default() };
    let handlers = Handlers::new().all(|_: Delivery| async { Err(HandlerError::retry("no")) });
    let poller = Poller::default();
    let running = start(&store, poller.clone(), handlers, config);
    let id = Outbox::new(Arc::clone(&store)).publish(Message::builder("t")).await.expect("ok").id;
    // Nobody polls yet, so the first retry waits for as long as we look at it.
    let waiting = until(&*store, id, State::Ready).await;
    assert_eq!((waiting.attempts, waiting.last_error.as_deref()), (1, Some("no")));
    poller.0.store(true, Ordering::SeqCst);
    let dead = until(&*store, id, State::Dead).await;
    assert_eq!((dead.attempts, dead.reason), (3, Some(DeadReason::Attempts)));
    assert!(running.shutdown(Duration::from_secs(5)).await);
}

/// Names of topics that the compiler knows. With us a type of its own is the better way, so both.
#[derive(Clone, Copy, Debug)]
enum EventType {
    UserCreated,
}

impl From<EventType> for String {
    fn from(event: EventType) -> Self {
        format!("{event:?}")
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OrderPlaced {
    order: u32,
}

impl Event for OrderPlaced {
    const TOPIC: &'static str = "OrderPlaced";
}

/// A handler for an enum, or for a type, gets what is published with the same.
///
/// # Panics
/// When it does not.
pub async fn type_safe_event_type<S: TransactionalStore + AdminStore>(store: Arc<S>) {
    let seen = Arc::new(AtomicU32::new(0));
    let orders = Arc::clone(&seen);
    let handlers = Handlers::new().topic(EventType::UserCreated, |_| async { Ok(()) }).on(
        move |event: OrderPlaced, _| {
            orders.store(event.order, Ordering::SeqCst);
            async { Ok(()) }
        },
    );
    let running = start(&store, Poller::default(), handlers, DispatcherConfig::default());
    let outbox = Outbox::new(Arc::clone(&store));
    let user = outbox.publish(Message::builder(EventType::UserCreated)).await.expect("publish").id;
    let order = outbox.publish(&OrderPlaced { order: 7 }).await.expect("publish").id;
    for id in [user, order] {
        until(&*store, id, State::Done).await;
    }
    assert_eq!(seen.load(Ordering::SeqCst), 7);
    assert!(running.shutdown(Duration::from_secs(5)).await);
}

#[derive(Clone, Copy, Debug)]
enum AggregateType {
    Order,
}

impl From<AggregateType> for String {
    fn from(aggregate: AggregateType) -> Self {
        format!("{aggregate:?}")
    }
}

/// The kind of an aggregate, given by an enum, is the enum's name in the row.
///
/// # Panics
/// When it is not.
pub async fn type_safe_aggregate_type<S: TransactionalStore + AdminStore>(store: Arc<S>) {
    let message = Message::builder("t").aggregate(AggregateType::Order, "7");
    let id = Outbox::new(Arc::clone(&store)).publish(message).await.expect("publish").id;
    let message = record(&*store, id).await.message.expect("it decodes");
    assert_eq!(message.aggregate_type().map(|kind| kind.as_str()), Some("Order"));
}

/// Polling, off until it is switched on: then every claim reaches the database.
#[derive(Clone, Debug, Default)]
struct Poller(Arc<AtomicBool>);

impl Around for Poller {
    fn claim<'a>(&'a self, call: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        match self.0.load(Ordering::SeqCst) {
            true => call,
            false => Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "switched off")) }),
        }
    }
}

fn counting(handled: &Arc<AtomicU32>) -> Handlers {
    let handled = Arc::clone(handled);
    Handlers::new().all(move |_: Delivery| {
        handled.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    })
}

fn start<S: Store>(
    store: &Arc<S>,
    poller: Poller,
    handlers: Handlers,
    config: DispatcherConfig,
) -> postroom_core::Running {
    let config = DispatcherConfig { poll_interval: Duration::from_millis(20), ..config };
    let store = Arc::new(Wrapped::new(Arc::clone(store), poller));
    Dispatcher::new(store, handlers).config(config).start().expect("legal settings")
}

async fn record(store: &impl AdminStore, id: MessageId) -> Record {
    store.get(id).await.expect("get").expect("it is there").record
}

/// Waits until the message is in this state.
async fn until(store: &impl AdminStore, id: MessageId, state: State) -> Record {
    loop {
        let record = record(store, id).await;
        if record.state == state {
            return record;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
