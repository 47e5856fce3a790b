//! The dispatcher over the in-memory store, under paused time: seconds pass in no time, and every
//! wait is exact.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, Record};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, ErrorKind, HandlerError, HandlerResult,
    Handlers, Message, MessageBuilder, MessageId, Outbox, OwnerToken, Retry, Running, WorkQueue,
};
use postroom_testkit::{Call, Fault, SimStore};
use tokio::time::{Instant, sleep};

struct World {
    store: Arc<SimStore>,
    outbox: Outbox<SimStore>,
    /// How often each message was handled.
    seen: Arc<Mutex<HashMap<MessageId, u32>>>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(SimStore::default().ticking());
        Self { outbox: Outbox::new(Arc::clone(&store)), store, seen: Arc::default() }
    }

    async fn publish(&self, message: MessageBuilder) -> MessageId {
        self.outbox.publish(message).await.expect("publish").id
    }

    async fn publish_many(&self, n: usize) -> Vec<MessageId> {
        let messages = (0..n).map(|_| Message::builder("t"));
        let published = self.outbox.publish_all(messages).await.expect("publish");
        published.into_iter().map(|published| published.id).collect()
    }

    async fn record(&self, id: MessageId) -> Record {
        self.store.get(id).await.expect("get").expect("it is there").record
    }

    /// Handlers that take note of the message before the function runs.
    fn counting<F, R>(&self, function: F) -> Handlers
    where
        F: Fn(Delivery) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        let seen = Arc::clone(&self.seen);
        Handlers::new().all(move |delivery: Delivery| {
            *seen.lock().expect("lock").entry(delivery.message().id()).or_default() += 1;
            function(delivery)
        })
    }

    fn start(&self, handlers: Handlers, config: DispatcherConfig) -> Running {
        let store = Arc::clone(&self.store);
        Dispatcher::new(store, handlers).config(config).start().expect("legal settings")
    }

    fn runs(&self) -> Vec<u32> {
        self.seen.lock().expect("lock").values().copied().collect()
    }

    async fn until_settled(&self) {
        loop {
            let stats = self.store.stats().await.expect("stats");
            if stats.ready + stats.waiting + stats.leased == 0 {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn small() -> DispatcherConfig {
    let backoff = Backoff::Fixed(Duration::from_secs(3));
    DispatcherConfig {
        workers: 4,
        lease: Duration::from_secs(10),
        handler_timeout: Duration::from_secs(8),
        poll_interval: Duration::from_secs(60),
        retry: Retry { backoff, max_attempts: 3 },
        ..DispatcherConfig::default()
    }
}

async fn fine(_: Delivery) -> HandlerResult {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn dsp_1_what_is_published_is_handled_once_and_done() {
    let world = World::new();
    let before = world.publish_many(300).await;
    let running = world.start(world.counting(fine), small());
    let after = world.publish_many(300).await;
    world.until_settled().await;
    assert!(running.shutdown(Duration::from_secs(1)).await);
    for id in before.into_iter().chain(after) {
        assert_eq!(world.record(id).await.state, State::Done);
    }
    assert_eq!(world.runs(), vec![1; 600]);
}

#[tokio::test(start_paused = true)]
async fn dsp_9_a_wake_up_does_not_wait_for_the_poll() {
    let world = World::new();
    let config = DispatcherConfig { hot_queue: 0, ..small() };
    let running = world.start(world.counting(fine), config);
    sleep(Duration::from_secs(200)).await;
    let began = Instant::now();
    world.publish(Message::builder("t")).await;
    world.until_settled().await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    running.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_9_what_others_put_off_is_handled_when_it_is_due() {
    let world = World::new();
    let running = world.start(world.counting(fine), small());
    sleep(Duration::from_secs(100)).await;
    // Through a handle that does not wake this process, as another process would.
    let other = Outbox::new(Arc::new(world.store.as_another_process()));
    let due = Message::builder("t").due_after(Duration::from_secs(130));
    other.publish(due).await.expect("publish");
    let began = Instant::now();
    world.until_settled().await;
    // The poll a minute later learns of it; the one after that would be up to five minutes away.
    assert_eq!(began.elapsed().as_secs(), 130);
    running.shutdown(Duration::from_secs(1)).await;
}

/// Seed 2, "Retry/Dead".
#[tokio::test(start_paused = true)]
async fn dsp_7_a_message_that_always_fails_is_tried_to_the_maximum_and_dead() {
    let world = World::new();
    let times = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now();
    let clock = Arc::clone(&times);
    let handlers = world.counting(move |delivery| {
        clock.lock().expect("lock").push((delivery.attempt(), began.elapsed().as_secs()));
        async { Err(HandlerError::retry("no")) }
    });
    let id = world.publish(Message::builder("t")).await;
    let running = world.start(handlers, small());
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    let record = world.record(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Attempts)));
    assert_eq!((record.attempts, record.last_error.as_deref()), (3, Some("no")));
    // Each retry came when it was due, not at the next poll a minute later.
    assert_eq!(*times.lock().expect("lock"), [(1, 0), (2, 3), (3, 6)]);
}

#[tokio::test(start_paused = true)]
async fn dsp_9_every_retry_comes_when_it_is_due() {
    let world = World::new();
    let times = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now();
    let clock = Arc::clone(&times);
    let handlers = world.counting(move |delivery| {
        let priority = delivery.message().priority();
        if delivery.attempt() > 1 {
            clock.lock().expect("lock").push((priority, began.elapsed().as_secs()));
        }
        async move {
            if delivery.attempt() > 1 {
                return Ok(());
            }
            // Something else is always running, so that settles are grouped.
            sleep(Duration::from_millis(50 * u64::from(priority.unsigned_abs()))).await;
            Err(HandlerError::retry_after(Duration::from_secs(priority.unsigned_abs().into()), "x"))
        }
    });
    for priority in [1, 2, 3, 4] {
        world.publish(Message::builder("t").priority(priority)).await;
    }
    let running = world.start(handlers, small());
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    assert_eq!(*times.lock().expect("lock"), [(1, 1), (2, 2), (3, 3), (4, 4)]);
}

#[tokio::test(start_paused = true)]
async fn dsp_5_a_delay_without_end_harms_nobody() {
    let world = World::new();
    let handlers = Handlers::new()
        .topic("never", |_| async { Err(HandlerError::not_now(Duration::MAX, "later")) })
        .topic("t", fine);
    let id = world.publish(Message::builder("never")).await;
    let good = world.publish_many(50).await;
    let running = world.start(handlers, DispatcherConfig { workers: 1, ..small() });
    sleep(Duration::from_secs(5)).await;
    assert!(running.shutdown(Duration::from_secs(1)).await);
    for id in good {
        assert_eq!(world.record(id).await.state, State::Done);
    }
    let record = world.record(id).await;
    assert_eq!((record.state, record.attempts, record.owner), (State::Ready, 0, None));
}

#[tokio::test(start_paused = true)]
async fn wq_7_slow_work_is_not_hoarded() {
    let world = World::new();
    let handlers = world.counting(|_| async {
        sleep(Duration::from_secs(5)).await;
        Ok(())
    });
    world.publish_many(600).await;
    let running = world.start(handlers, DispatcherConfig { batch: 50, ..small() });
    sleep(Duration::from_secs(60)).await;
    // Four workers finish less than one a second: half a lease of that is four, one per worker.
    let leased = world.store.stats().await.expect("stats").leased;
    assert!(leased <= 50, "{leased} items are held");
    sleep(Duration::from_secs(300)).await;
    let leased = world.store.stats().await.expect("stats").leased;
    assert!(leased <= 8, "{leased} items are held");
    running.shutdown(Duration::from_secs(10)).await;
}

#[tokio::test(start_paused = true)]
async fn wq_7_a_lease_that_can_not_be_renewed_ends_here_before_it_ends_there() {
    let world = World::new();
    for _ in 0..100 {
        world.store.fail_next(Call::Renew, Fault::Unavailable);
    }
    let began = Instant::now();
    let stopped = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&stopped);
    let handlers = world.counting(move |delivery| {
        let notes = Arc::clone(&notes);
        async move {
            if delivery.attempt() == 1 && notes.lock().expect("lock").is_empty() {
                // Takes note when it is dropped, which is when it is cut.
                let _guard = OnDrop(notes, began);
                sleep(Duration::from_secs(3_600)).await;
            }
            Ok(())
        }
    });
    let id = world.publish(Message::builder("t")).await;
    let config = DispatcherConfig {
        handler_timeout: Duration::from_millis(9_900),
        poll_interval: Duration::from_millis(100),
        ..small()
    };
    let running = world.start(handlers, config);
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    let cut = stopped.lock().expect("lock")[0];
    assert!(cut < Duration::from_millis(9_100), "cut after {cut:?}, a margin before 10 s");
    let record = world.record(id).await;
    assert_eq!((record.state, record.lost), (State::Done, 1), "and taken over after it");
}

struct OnDrop(Arc<Mutex<Vec<Duration>>>, Instant);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.lock().expect("lock").push(self.1.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_5_panics_timeouts_and_dead_ends_stop_nobody_else() {
    let world = World::new();
    let handlers = Handlers::new()
        .topic("panic", |_| async { panic!("boom") })
        .topic("slow", |_| async {
            sleep(Duration::from_secs(3_600)).await;
            Ok(())
        })
        .topic("dead", |_| async { Err(HandlerError::dead("never")) })
        .topic("t", fine);
    let mut bad = Vec::new();
    for topic in ["panic", "slow", "dead"] {
        bad.push(world.publish(Message::builder(topic)).await);
    }
    let good = world.publish_many(50).await;
    let running = world.start(handlers, small());
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    for id in good {
        assert_eq!(world.record(id).await.state, State::Done);
    }
    let mut errors = Vec::new();
    for id in bad {
        errors.push(world.record(id).await.last_error.expect("an error"));
    }
    assert_eq!(errors, ["handler panicked: boom", "timed out after 8s", "never"]);
}

#[tokio::test(start_paused = true)]
async fn wq_7_what_waits_in_the_queue_keeps_its_lease() {
    let world = World::new();
    let config = DispatcherConfig { workers: 1, ..small() };
    let handlers = world.counting(|_| async {
        sleep(Duration::from_secs(7)).await;
        Ok(())
    });
    let all = world.publish_many(8).await;
    let running = world.start(handlers, config);
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    assert_eq!(world.runs(), vec![1; 8], "56 s of work under leases of 10 s");
    for id in all {
        let record = world.record(id).await;
        assert_eq!((record.state, record.lost), (State::Done, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_11_shutdown_finishes_what_runs_and_gives_back_the_rest() {
    let world = World::new();
    let handlers = world.counting(|_| async {
        sleep(Duration::from_secs(5)).await;
        Ok(())
    });
    world.publish_many(20).await;
    let running = world.start(handlers, small());
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    assert!(running.shutdown(Duration::from_secs(30)).await, "nothing had to be cut");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.done, stats.ready, stats.leased, stats.failed), (4, 16, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn dsp_11_what_outlasts_the_grace_is_cut_without_an_attempt() {
    let world = World::new();
    let handlers = world.counting(|_| async {
        sleep(Duration::from_secs(7)).await;
        Ok(())
    });
    let id = world.publish(Message::builder("t")).await;
    let running = world.start(handlers, small());
    sleep(Duration::from_secs(1)).await;
    assert!(!running.shutdown(Duration::from_secs(2)).await);
    let record = world.record(id).await;
    assert_eq!((record.state, record.attempts, record.owner), (State::Ready, 0, None));
}

#[tokio::test(start_paused = true)]
async fn dsp_12_an_outage_of_the_store_loses_nothing_and_repeats_nothing() {
    let world = World::new();
    for _ in 0..5 {
        world.store.fail_next(Call::Claim, Fault::Unavailable);
        world.store.fail_next(Call::Settle, Fault::Unavailable);
        world.store.fail_next(Call::Settle, Fault::Contention);
        world.store.fail_next(Call::Settle, Fault::ReplyLost);
    }
    let config = DispatcherConfig { poll_interval: Duration::from_millis(100), ..small() };
    world.publish_many(40).await;
    let running = world.start(world.counting(fine), config);
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    assert_eq!(world.runs(), vec![1; 40]);
    assert_eq!(world.store.stats().await.expect("stats").done, 40);
}

/// A settlement that the database refuses must not take along those that it was grouped with.
#[tokio::test(start_paused = true)]
async fn dsp_8_a_refused_group_is_settled_one_by_one() {
    let world = World::new();
    world.store.fail_next(Call::Settle, Fault::Refused);
    let handlers = world.counting(|_| async {
        sleep(Duration::from_millis(1)).await;
        Ok(())
    });
    world.publish_many(4).await;
    let running = world.start(handlers, small());
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    assert_eq!(world.runs(), vec![1; 4], "nothing came again after its lease");
    assert_eq!(world.store.stats().await.expect("stats").done, 4);
}

#[tokio::test(start_paused = true)]
async fn dsp_9_no_more_is_claimed_than_there_is_room_for() {
    let world = World::new();
    let most = Arc::new(AtomicU32::new(0));
    let (store, peak) = (Arc::clone(&world.store), Arc::clone(&most));
    let handlers = world.counting(move |_| {
        let (store, peak) = (Arc::clone(&store), Arc::clone(&peak));
        async move {
            let leased = store.stats().await.expect("stats").leased;
            peak.fetch_max(u32::try_from(leased).expect("small"), Ordering::SeqCst);
            sleep(Duration::from_millis(1)).await;
            Ok(())
        }
    });
    world.publish_many(500).await;
    let running = world.start(handlers, DispatcherConfig { cold_queue: 16, ..small() });
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    assert_eq!(world.runs(), vec![1; 500], "places come back");
    assert!(most.load(Ordering::SeqCst) <= 16, "{most:?}");
}

#[tokio::test(start_paused = true)]
async fn wq_8_the_work_of_a_dead_process_is_taken_over() {
    let world = World::new();
    let all = world.publish_many(10).await;
    let dead = WorkQueue::new(Arc::clone(&world.store) as _);
    let lease = Duration::from_secs(10);
    let claimed = dead.claim(OwnerToken::random(), lease, 10).await.expect("claim");
    assert_eq!(claimed.items.len(), 10);
    let config = DispatcherConfig { poll_interval: Duration::from_secs(1), ..small() };
    let running = world.start(world.counting(fine), config);
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    for id in all {
        let record = world.record(id).await;
        assert_eq!((record.state, record.attempts, record.lost), (State::Done, 0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_1_two_dispatchers_share_the_work() {
    let world = World::new();
    world.publish_many(400).await;
    let slow = |_| async {
        sleep(Duration::from_millis(5)).await;
        Ok(())
    };
    let config = DispatcherConfig { batch: 10, ..small() };
    let one = world.start(world.counting(slow), config.clone());
    let two = world.start(world.counting(slow), config);
    assert_ne!(one.owner(), two.owner());
    world.until_settled().await;
    one.shutdown(Duration::from_secs(1)).await;
    two.shutdown(Duration::from_secs(1)).await;
    assert_eq!(world.runs(), vec![1; 400]);
}

#[tokio::test(start_paused = true)]
async fn wq_1_a_message_that_expires_in_the_queue_is_not_started() {
    let world = World::new();
    let config = DispatcherConfig { workers: 1, ..small() };
    let handlers = world.counting(|_| async {
        sleep(Duration::from_secs(5)).await;
        Ok(())
    });
    world.publish(Message::builder("first")).await;
    let expires = Message::builder("t").expires_after(Duration::from_secs(4));
    let id = world.publish(expires).await;
    let running = world.start(handlers, config);
    world.until_settled().await;
    running.shutdown(Duration::from_secs(1)).await;
    let record = world.record(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Expired)));
    assert_eq!((record.attempts, world.runs()), (0, vec![1]));
}

#[tokio::test]
async fn settings_out_of_bounds_start_nothing() {
    let world = World::new();
    let config = DispatcherConfig { workers: 0, ..small() };
    let refused = Dispatcher::new(world.store, Handlers::new()).config(config).start();
    assert_eq!(refused.expect_err("no workers").kind(), ErrorKind::Invalid);
}
