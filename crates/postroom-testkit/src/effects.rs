//! Many copies of one message, and a handler that is too late: one effect.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_core::store::{AdminStore, BoxFuture, TransactionalStore};
use postroom_core::{
    Delivery, DispatcherConfig, Inbox, InboxTransaction, Message, Once, Outbox, Received, Running,
};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::around::{Around, Step, Wrapped};
use crate::assertions::messages_on;
use crate::harness::{Env, Harness, Options};

const COPIES: usize = 16;
/// Generous: it bounds a hang, it measures nothing.
const PATIENCE: Duration = Duration::from_secs(60);

fn billing<S: TransactionalStore>(store: &Arc<S>) -> Inbox<S> {
    Inbox::new(&Outbox::new(Arc::clone(store)), "billing").expect("a good name")
}

fn order() -> Message {
    Message::builder("order.placed").json(&7).build().expect("a message")
}

async fn until_done<S: TransactionalStore + AdminStore>(inbox: &Inbox<S>) {
    let until = Instant::now() + PATIENCE;
    while inbox.store().stats().await.expect("stats").done < 1 {
        assert!(Instant::now() < until, "it is not done yet");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sixteen copies of one message are received at once, on all of these handles of one store; then
/// each handle has a dispatcher.
///
/// # Panics
/// When not exactly one copy is new, or when the handler does not run exactly once.
pub async fn copies_are_received_once<S>(stores: &[Arc<S>])
where
    S: TransactionalStore + AdminStore,
{
    let barrier = Arc::new(Barrier::new(COPIES));
    let mut copies = JoinSet::new();
    for store in stores.iter().cycle().take(COPIES) {
        let (inbox, barrier) = (billing(store), Arc::clone(&barrier));
        copies.spawn(async move {
            barrier.wait().await;
            inbox.receive("shop", "order-7", order()).await.expect("receive")
        });
    }
    let received = copies.join_all().await;
    let first = received.iter().find_map(|received| match received {
        Received::New(id) => Some(*id),
        _ => None,
    });
    let duplicate = Received::Duplicate(first.expect("one is new"));
    let duplicates = received.iter().filter(|received| **received == duplicate).count();
    assert_eq!(duplicates, COPIES - 1, "{received:?}");

    let runs = Arc::new(AtomicUsize::new(0));
    let start = |store: &Arc<S>| {
        let (inbox, runs) = (billing(store), Arc::clone(&runs));
        let handlers = inbox.handlers().all(move |_, tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            async { Ok(tx) }
        });
        inbox.dispatcher(handlers).start().expect("legal settings")
    };
    let running: Vec<Running> = stores.iter().map(start).collect();
    until_done(&billing(&stores[0])).await;
    for running in running {
        assert!(running.shutdown(PATIENCE).await);
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

/// Sixteen transactions on all of these handles of one store ask at once whether a message is new.
/// With `together` all of them are open when the first one asks; SQLite has only one at a time.
///
/// # Panics
/// When not exactly one is told so, or when one of the others is of no use afterwards.
pub async fn copies_take_effect_once<H: Harness>(
    service: &Arc<H>,
    stores: &[Arc<H::Store>],
    together: bool,
) {
    let barrier = Arc::new(Barrier::new(COPIES));
    let mut copies = JoinSet::new();
    for store in stores.iter().cycle().take(COPIES) {
        let (service, inbox) = (Arc::clone(service), billing(store));
        let barrier = Arc::clone(&barrier);
        copies.spawn(async move {
            barrier.wait().await;
            let mut tx = inbox.outbox().begin().await.expect("begin");
            if together {
                barrier.wait().await;
            }
            let once = inbox.once(tx.conn(), "shop", "order-7").await.expect("an answer");
            // A duplicate must do nothing; this row shows that it still could.
            let row = if once == Once::First { 7 } else { 0 };
            service.write_business_row(tx.conn(), row).await;
            tx.commit().await.expect("commit");
            once
        });
    }
    let answers = copies.join_all().await;
    assert_eq!(answers.iter().filter(|once| **once == Once::First).count(), 1, "{answers:?}");
    let rows = service.business_rows().await;
    assert_eq!((rows.len(), rows[COPIES - 2], rows[COPIES - 1]), (COPIES, 0, 7), "{rows:?}");
}

/// Keeps the first transaction that comes to a step until it is let go, and remembers its end.
#[derive(Debug)]
struct Hold {
    at: Step,
    came: AtomicUsize,
    held: Notify,
    go: Notify,
    end: Mutex<Option<Step>>,
    ended: Notify,
}

impl Around for Arc<Hold> {
    fn step(&self, step: Step) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if step == self.at && self.came.fetch_add(1, Ordering::Relaxed) == 0 {
                self.held.notify_one();
                self.go.notified().await;
            }
            if matches!(step, Step::Refused | Step::Committed) {
                self.end.lock().expect("lock").get_or_insert(step);
                self.ended.notify_one();
            }
        })
    }
}

/// Writes the order's number and publishes it.
fn start<H: Harness, S>(service: &Arc<Env<H>>, inbox: &Inbox<S>) -> Running
where
    S: TransactionalStore<Conn = <H::Store as TransactionalStore>::Conn>,
{
    let service = Arc::clone(service);
    let handlers = inbox.handlers().all(move |delivery: Delivery, mut tx: InboxTransaction<S>| {
        let service = Arc::clone(&service);
        async move {
            let order: i64 = delivery.message().json()?;
            service.harness.write_business_row(tx.conn(), order).await;
            tx.publish(Message::builder("invoice.created").json(&order))?;
            Ok(tx)
        }
    });
    // One place: whoever is held here takes nothing over from itself.
    let (workers, cold_queue, hot_queue) = (1, 1, 0);
    let config = DispatcherConfig { workers, cold_queue, hot_queue, ..DispatcherConfig::default() };
    inbox.dispatcher(handlers).config(config).start().expect("legal settings")
}

/// A handler is held at a step of its transaction while its lease runs out by the database's clock
/// but not by its own, as in a process that was suspended. Somebody else has the effect meanwhile.
///
/// Nothing but the fence stops the first one: it believes in its lease. At the step the database
/// must let others write; on SQLite that is [`Step::Beginning`].
///
/// # Panics
/// When there are two effects.
pub async fn a_late_handler_has_no_effect<H: Harness>(at: Step) {
    let env = Arc::new(Env::<H>::fresh(Options::default()).await);
    let (came, end) = (AtomicUsize::new(0), Mutex::new(None));
    let (held, go, ended) = (Notify::new(), Notify::new(), Notify::new());
    let hold = Arc::new(Hold { at, came, held, go, end, ended });
    let late = billing(&Arc::new(Wrapped::new(env.store(), Arc::clone(&hold))));
    let running = start(&env, &late);
    let inbox = billing(&env.store());
    let received = inbox.receive("shop", "order-7", order()).await.expect("receive");
    assert!(matches!(received, Received::New(_)));
    timeout(PATIENCE, hold.held.notified()).await.expect("its handler comes to the step");
    env.advance(Duration::from_secs(31));
    let successor = start(&env, &inbox);
    until_done(&inbox).await;
    assert_eq!(env.harness.business_rows().await, [7], "taken over");
    hold.go.notify_one();
    timeout(PATIENCE, hold.ended.notified()).await.expect("its transaction ends");
    for running in [running, successor] {
        assert!(running.shutdown(PATIENCE).await);
    }
    assert_eq!(*hold.end.lock().expect("lock"), Some(Step::Refused));
    assert_eq!(env.harness.business_rows().await, [7], "one effect");
    assert_eq!(messages_on(&*env.store(), "invoice.created").await.len(), 1);
    if let Some(env) = Arc::into_inner(env) {
        drop(inbox);
        env.harness.finish().await;
    }
}
