//! Handlers with a transaction, over the in-memory store and under paused time: whatever happens
//! around their commit, an effect is there once, and so is its mark.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::{Outcome, Settlement, State};
use postroom_core::store::{AdminStore, BoxFuture, Record, Settled, Store};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, Inbox, InboxHandlers, InboxTransaction,
    Interceptor, Lease, Message, MessageId, Outbox, Received, Result, Retry, Running,
};
use postroom_testkit::around::{Around, Wrapped};
use postroom_testkit::{Call, Fault, SimStore};
use tokio::time::sleep;

type Tx = InboxTransaction<SimStore>;

struct World {
    store: SimStore,
    inbox: Inbox<SimStore>,
    /// How often a handler was called, and with which attempt the last time.
    runs: Arc<AtomicU32>,
    attempt: Arc<AtomicU32>,
}

impl World {
    fn new() -> Self {
        let store = SimStore::default().ticking();
        let outbox = Outbox::new(Arc::new(store.clone()));
        let inbox = Inbox::new(&outbox, "billing").expect("legal");
        Self { store, inbox, runs: Arc::default(), attempt: Arc::default() }
    }

    async fn receive(&self) -> MessageId {
        let received = self.inbox.receive("shop", "1", Message::builder("t").payload("{}"));
        match received.await.expect("receive") {
            Received::New(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// A handler that writes one row, then waits.
    fn writing(&self, wait: Duration) -> InboxHandlers<SimStore> {
        let (runs, attempt) = (Arc::clone(&self.runs), Arc::clone(&self.attempt));
        self.inbox.handlers().all(move |delivery: Delivery, mut tx: Tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            attempt.store(delivery.attempt(), Ordering::Relaxed);
            async move {
                tx.conn().write_business_row(1)?;
                tx.publish(Message::builder("follow-up"))?;
                sleep(wait).await;
                Ok(tx)
            }
        })
    }

    fn start(&self, handlers: InboxHandlers<SimStore>) -> Running {
        self.inbox.dispatcher(handlers).config(config()).start().expect("legal settings")
    }

    async fn record(&self, id: MessageId) -> Record {
        self.inbox.store().get(id).await.expect("get").expect("it is there").record
    }

    /// Within an hour of paused time.
    async fn until_done(&self, id: MessageId) -> Record {
        for _ in 0..360_000 {
            let record = self.record(id).await;
            assert_ne!(record.state, State::Dead, "{:?}", record.last_error);
            if record.state == State::Done {
                return record;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{id} is not done");
    }

    /// One row, one follow-up, one mark, after so many calls of the handler.
    async fn took_effect_once(&self, running: Running, runs: u32) {
        sleep(Duration::from_secs(1)).await;
        assert!(running.is_idle(), "it holds nothing");
        assert!(running.shutdown(Duration::from_secs(5)).await);
        assert_eq!(self.store.business_rows().await, [1]);
        assert_eq!(self.store.stats().await.expect("stats").ready, 1, "follow-ups");
        assert_eq!(self.runs.load(Ordering::Relaxed), runs, "runs");
    }
}

fn config() -> DispatcherConfig {
    let backoff = Backoff::Fixed(Duration::from_secs(3));
    DispatcherConfig {
        workers: 2,
        retry: Retry { backoff, ..Retry::default() },
        ..DispatcherConfig::default()
    }
}

#[tokio::test(start_paused = true)]
async fn inb_3_a_commit_whose_answer_is_lost_has_its_effect_once() {
    let world = World::new();
    let id = world.receive().await;
    world.store.fail_next(Call::Commit, Fault::ReplyLost);
    let running = world.start(world.writing(Duration::ZERO));
    assert_eq!(world.until_done(id).await.attempts, 0, "there was nothing to try again");
    sleep(Duration::from_mins(2)).await;
    world.took_effect_once(running, 1).await;
}

#[tokio::test(start_paused = true)]
async fn inb_3_a_commit_that_did_not_happen_is_tried_again() {
    for fault in [Fault::Unavailable, Fault::Contention, Fault::Refused] {
        let world = World::new();
        let id = world.receive().await;
        world.store.fail_next(Call::Commit, fault);
        let running = world.start(world.writing(Duration::ZERO));
        assert_eq!(world.until_done(id).await.attempts, 1, "{fault:?}");
        world.took_effect_once(running, 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn inb_3_a_message_does_not_pay_for_a_database_without_transactions() {
    let world = World::new();
    let id = world.receive().await;
    for _ in 0..20 {
        world.store.fail_next(Call::Begin, Fault::Unavailable);
    }
    let running = world.start(world.writing(Duration::ZERO));
    assert_eq!(world.until_done(id).await.attempts, 0);
    assert_eq!(world.attempt.load(Ordering::Relaxed), 1);
    world.took_effect_once(running, 1).await;
}

#[tokio::test(start_paused = true)]
async fn inb_3_a_handler_out_of_time_is_rolled_back() {
    let world = World::new();
    let id = world.receive().await;
    let running = world.start(world.writing(Duration::from_mins(1)));
    sleep(Duration::from_secs(27)).await;
    let record = world.record(id).await;
    assert_eq!(record.last_error.as_deref(), Some("timed out after 25s"));
    assert!(world.store.business_rows().await.is_empty());
    assert!(running.shutdown(Duration::from_secs(60)).await);
}

#[tokio::test(start_paused = true)]
async fn dsp_11_a_cut_handler_has_no_effect_and_costs_no_attempt() {
    let world = World::new();
    let id = world.receive().await;
    let running = world.start(world.writing(Duration::from_secs(20)));
    while world.runs.load(Ordering::Relaxed) == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(!running.shutdown(Duration::from_secs(1)).await, "it was cut");
    let record = world.record(id).await;
    assert_eq!((record.state, record.attempts), (State::Ready, 0));
    assert!(world.store.business_rows().await.is_empty());
}

/// What settles in its handler's transaction is not settled by the dispatcher too.
#[tokio::test(start_paused = true)]
async fn inb_3_nothing_is_settled_twice() {
    #[derive(Debug, Default)]
    struct Counts(AtomicU32);
    impl Around for Counts {
        fn settle<'a>(
            &'a self,
            items: &'a [(Lease, Settlement)],
            call: BoxFuture<'a, Result<Settled>>,
        ) -> BoxFuture<'a, Result<Settled>> {
            self.0.fetch_add(items.len() as u32, Ordering::Relaxed);
            call
        }
    }
    let world = World::new();
    let id = world.receive().await;
    let store = Arc::new(Wrapped::new(Arc::clone(world.inbox.store()), Counts::default()));
    let engine = Arc::clone(&store) as Arc<dyn Store>;
    let dispatcher = Dispatcher::new(engine, world.writing(Duration::ZERO));
    let running = dispatcher.config(config()).start().expect("legal settings");
    world.until_done(id).await;
    let counts = running.snapshot().counts;
    assert_eq!((counts.done, counts.leases_lost), (1, 0));
    world.took_effect_once(running, 1).await;
    assert_eq!(store.around().0.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn dsp_2_what_is_received_here_goes_to_the_workers_without_a_claim() {
    let world = World::new();
    let running = world.start(world.writing(Duration::ZERO));
    let id = world.receive().await;
    world.until_done(id).await;
    let counts = running.snapshot().counts;
    assert_eq!((counts.enqueued, counts.hot, counts.claimed), (1, 1, 0));
    world.took_effect_once(running, 1).await;
}

#[tokio::test(start_paused = true)]
async fn inb_2_duplicates_and_conflicts_are_counted() {
    let world = World::new();
    world.receive().await;
    for payload in ["{}", "{}", "[]"] {
        let message = Message::builder("t").payload(payload);
        let _ = world.inbox.receive("shop", "1", message).await.expect("receive");
    }
    let counts = world.inbox.store().local().snapshot().counts;
    assert_eq!((counts.enqueued, counts.duplicates, counts.conflicts), (1, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn dsp_13_an_interceptor_sees_it_done() {
    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<Outcome>>>);
    impl Interceptor for Notes {
        fn after<'a>(&'a self, _: &'a Delivery, outcome: &'a Outcome) -> BoxFuture<'a, ()> {
            self.0.lock().expect("lock").push(outcome.clone());
            Box::pin(std::future::ready(()))
        }
    }
    let (world, notes) = (World::new(), Notes::default());
    let id = world.receive().await;
    let dispatcher = world.inbox.dispatcher(world.writing(Duration::ZERO)).config(config());
    let running = dispatcher.intercept(notes.clone()).start().expect("legal settings");
    world.until_done(id).await;
    world.took_effect_once(running, 1).await;
    assert_eq!(*notes.0.lock().expect("lock"), [Outcome::Done]);
}
