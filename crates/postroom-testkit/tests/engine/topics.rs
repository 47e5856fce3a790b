//! Settings of single topics, batch handlers, interceptors and housekeeping, under paused time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, Outcome, State};
use postroom_core::store::{AdminStore, BoxFuture, Pause, Purge, Record};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, HandlerResult, Handlers,
    Interceptor, Message, MessageBuilder, MessageId, Outbox, OwnerToken, Rate, Retry, Sink, Topic,
    TopicConfig, UnknownTopic, WorkQueue,
};
use postroom_testkit::SimStore;
use tokio::time::{Instant, sleep};

struct World {
    store: Arc<SimStore>,
    outbox: Outbox<SimStore>,
    began: Instant,
    /// What was handled when, by topic.
    started: Arc<Mutex<BTreeMap<String, Vec<Duration>>>>,
    running: Arc<AtomicUsize>,
    most_running: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(SimStore::default().ticking());
        Self {
            outbox: Outbox::new(Arc::clone(&store)),
            store,
            began: Instant::now(),
            started: Arc::default(),
            running: Arc::default(),
            most_running: Arc::default(),
        }
    }

    async fn publish(&self, message: MessageBuilder) -> MessageId {
        self.outbox.publish(message).await.expect("publish").id
    }

    async fn publish_many(&self, topic: &str, n: usize) {
        let messages = (0..n).map(|_| Message::builder(topic));
        self.outbox.publish_all(messages).await.expect("publish");
    }

    /// Handles messages of topics that begin with `slow` in `time`, others in none.
    fn handlers(&self, time: Duration) -> Handlers {
        let (running, most) = (Arc::clone(&self.running), Arc::clone(&self.most_running));
        let (started, began) = (Arc::clone(&self.started), self.began);
        Handlers::new().all(move |delivery: Delivery| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            let topic = delivery.message().topic().as_str().to_owned();
            started.lock().expect("lock").entry(topic.clone()).or_default().push(began.elapsed());
            async move {
                if topic.starts_with("slow") {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    sleep(time).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                }
                Ok(())
            }
        })
    }

    fn dispatcher(&self, sink: impl Sink, config: DispatcherConfig) -> Dispatcher {
        Dispatcher::new(Arc::clone(&self.store) as _, sink).config(config)
    }

    fn started(&self, topic: &str) -> Vec<Duration> {
        self.started.lock().expect("lock").get(topic).cloned().unwrap_or_default()
    }

    async fn pause(&self, topic: &str) {
        let topic = Some(Topic::new(topic).expect("legal"));
        let pause = Pause { topic, ..Pause::default() };
        assert!(self.store.pause(&pause).await.expect("pause"));
    }

    async fn record(&self, id: MessageId) -> Record {
        self.store.get(id).await.expect("get").expect("it is there").record
    }

    async fn until_settled(&self) {
        while {
            let stats = self.store.stats().await.expect("stats");
            stats.ready + stats.waiting + stats.leased > 0
        } {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn config(topics: Vec<TopicConfig>) -> DispatcherConfig {
    DispatcherConfig {
        workers: 8,
        lease: Duration::from_secs(10),
        handler_timeout: Duration::from_secs(8),
        poll_interval: Duration::from_secs(60),
        retry: Retry { backoff: Backoff::Fixed(Duration::from_secs(3)), max_attempts: 3 },
        topics,
        ..DispatcherConfig::default()
    }
}

/// The same without the hot path.
fn cold(topics: Vec<TopicConfig>) -> DispatcherConfig {
    DispatcherConfig { hot_queue: 0, ..config(topics) }
}

const TENTH: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn dsp_10_no_more_of_a_topic_run_at_a_time_than_its_limit() {
    for settings in [config, cold] {
        let world = World::new();
        world.publish_many("slow", 15).await;
        let settings = settings(vec![TopicConfig::new("slow").concurrency(2)]);
        let running =
            world.dispatcher(world.handlers(TENTH), settings).start().expect("legal settings");
        world.publish_many("slow", 15).await;
        world.publish_many("fast", 30).await;
        world.until_settled().await;
        assert_eq!(world.most_running.load(Ordering::SeqCst), 2);
        // Two at a time, none left out, and nothing else waits for them.
        let slow = world.started("slow");
        assert!(slow.len() == 30 && slow[29] >= 14 * TENTH && slow[29] < 16 * TENTH, "{slow:?}");
        let fast = world.started("fast");
        assert!(fast.len() == 30 && fast[29] < TENTH, "{fast:?}");
        assert!(running.shutdown(TENTH).await);
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_10_topics_of_one_pattern_share_its_limit() {
    let world = World::new();
    let running = world
        .dispatcher(world.handlers(TENTH), config(vec![TopicConfig::new("slow.*").concurrency(3)]))
        .start()
        .expect("legal settings");
    for topic in ["slow.a", "slow.b", "slow.c", "slow.d"] {
        world.publish_many(topic, 6).await;
    }
    world.until_settled().await;
    assert_eq!(world.most_running.load(Ordering::SeqCst), 3);
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn dsp_10_a_rate_is_kept_and_used() {
    for settings in [config, cold] {
        let world = World::new();
        let rate = Rate::per_second(10).burst(3);
        let settings = settings(vec![TopicConfig::new("limited").rate(rate)]);
        let running =
            world.dispatcher(world.handlers(TENTH), settings).start().expect("legal settings");
        sleep(Duration::from_secs(5)).await;
        world.publish_many("limited", 40).await;
        world.until_settled().await;
        let started = world.started("limited");
        assert_eq!(started.len(), 40);
        for (n, window) in started.windows(4).enumerate() {
            // Of four in a row only three can be part of a burst.
            let apart = window[3] - window[0];
            assert!(apart >= TENTH - Duration::from_millis(2), "{n}: {apart:?}");
        }
        // Three at once, the others one by one.
        let took = started[39] - started[0];
        assert!((36 * TENTH..39 * TENTH).contains(&took), "{took:?}");
        running.shutdown(TENTH).await;
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_10_a_topic_at_its_limit_does_not_clog_the_queue() {
    let world = World::new();
    world.publish_many("slow", 500).await;
    let settings = DispatcherConfig {
        workers: 2,
        cold_queue: 40,
        batch: 40,
        ..cold(vec![TopicConfig::new("slow").concurrency(1)])
    };
    let sink = world.handlers(Duration::from_secs(1));
    let running = world.dispatcher(sink, settings).start().expect("legal settings");
    sleep(Duration::from_secs(1)).await;
    // The others are not behind five hundred seconds of work.
    let published = world.began.elapsed();
    world.publish_many("fast", 200).await;
    sleep(Duration::from_secs(1)).await;
    let fast = world.started("fast");
    assert_eq!(fast.len(), 200);
    assert!(fast[199] - published < Duration::from_millis(200), "{:?}", fast[199] - published);
    // What this process can not do soon is there for others.
    let stats = world.store.stats().await.expect("stats");
    assert!(stats.leased <= 10, "{stats:?}");
    // That stays so when it is known how slow the topic is.
    for n in 0..10 {
        sleep(Duration::from_millis(3_500)).await;
        let published = world.began.elapsed();
        world.publish_many("fast", 1).await;
        sleep(Duration::from_millis(200)).await;
        let fast = world.started("fast");
        assert!(fast.len() == 201 + n && fast[200 + n] - published < TENTH, "{n}: {fast:?}");
    }
    // It is not claimed and given back all the time, and never too late.
    sleep(Duration::from_secs(61)).await;
    let counts = running.snapshot().counts;
    assert!((99..=100).contains(&world.started("slow").len()));
    assert!(counts.claimed < 210 + 2 * 100, "{counts:?}");
    running.shutdown(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_2_what_would_wait_behind_many_is_born_ready() {
    let world = World::new();
    let settings = config(vec![TopicConfig::new("slow").concurrency(1)]);
    let sink = world.handlers(Duration::from_secs(5));
    let running = world.dispatcher(sink, settings).start().expect("legal settings");
    for _ in 0..50 {
        world.publish_many("slow", 1).await;
        sleep(Duration::from_millis(1)).await;
    }
    let (counts, stats) = (running.snapshot().counts, world.store.stats().await.expect("stats"));
    assert!(counts.hot <= 5 && counts.hot_dropped == 0, "{counts:?}");
    assert!(stats.ready >= 45, "{stats:?}");
    running.shutdown(TENTH).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_11_what_waits_for_its_turn_is_given_back_at_once() {
    let world = World::new();
    let settings = config(vec![TopicConfig::new("slow").concurrency(1)]);
    let sink = world.handlers(Duration::from_secs(5));
    let running = world.dispatcher(sink, settings).start().expect("legal settings");
    world.publish_many("slow", 5).await;
    sleep(TENTH).await;
    let grace = Duration::from_secs(20);
    let (clean, ()) = tokio::join!(running.shutdown(grace), async {
        sleep(TENTH).await;
        let stats = world.store.stats().await.expect("stats");
        assert_eq!((stats.ready, stats.leased), (4, 1), "one runs, the others are back");
    });
    assert!(clean && world.began.elapsed() < Duration::from_secs(6));
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.done, stats.ready, stats.failed), (1, 4, 0));
}

#[tokio::test(start_paused = true)]
async fn dsp_10_what_waits_for_its_turn_is_given_back_when_its_topic_is_paused() {
    let world = World::new();
    let settings = cold(vec![TopicConfig::new("slow").concurrency(1)]);
    let sink = world.handlers(Duration::from_secs(5));
    let running = world.dispatcher(sink, settings).start().expect("legal settings");
    world.publish_many("slow", 4).await;
    sleep(TENTH).await;
    assert_eq!(world.store.stats().await.expect("stats").leased, 4);
    world.pause("slow").await;
    sleep(Duration::from_millis(1_100)).await;
    assert_eq!(world.store.stats().await.expect("stats").leased, 1, "what runs finishes");
    running.shutdown(Duration::from_secs(9)).await;
    assert_eq!(world.started("slow").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ord_1_limits_do_not_disturb_order() {
    let world = World::new();
    let order = Arc::new(Mutex::new(BTreeMap::<String, Vec<u32>>::new()));
    let seen = Arc::clone(&order);
    let sink = Handlers::new().all(move |delivery: Delivery| {
        let key = delivery.message().ordering_key().expect("ordered").to_string();
        let n: u32 = delivery.message().json().expect("a number");
        let first = delivery.attempt() == 1;
        let seen = Arc::clone(&seen);
        async move {
            sleep(Duration::from_millis(30)).await;
            if first && n % 7 == 3 {
                return Err(HandlerError::retry("once"));
            }
            seen.lock().expect("lock").entry(key).or_default().push(n);
            Ok(())
        }
    });
    let limits = TopicConfig::new("*").concurrency(2).rate(Rate::per_second(30));
    let running = world.dispatcher(sink, cold(vec![limits])).start().expect("legal settings");
    for n in 0..20 {
        for key in ["a", "b", "c"] {
            let payload = n.to_string();
            world.publish(Message::builder("t").ordering_key(key).payload(payload)).await;
        }
    }
    world.until_settled().await;
    running.shutdown(TENTH).await;
    let order = order.lock().expect("lock");
    assert_eq!(order.len(), 3);
    assert!(order.values().all(|seen| *seen == (0..20).collect::<Vec<_>>()), "{order:?}");
}

/// Takes runs, and notes how long they are.
struct Runs(Arc<Mutex<Vec<usize>>>);

impl Sink for Runs {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            self.0.lock().expect("lock").push(batch.len());
            sleep(TENTH).await;
            vec![Outcome::Done; batch.len()]
        })
    }

    fn max_batch(&self) -> usize {
        10
    }

    fn takes_runs(&self) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn ord_1_a_run_is_no_longer_than_its_limit_allows() {
    let world = World::new();
    for _ in 0..20 {
        world.publish(Message::builder("t").ordering_key("k")).await;
    }
    let runs = Arc::new(Mutex::new(Vec::new()));
    let settings = cold(vec![TopicConfig::new("t").concurrency(3)]);
    let running = world.dispatcher(Runs(Arc::clone(&runs)), settings).start().expect("legal");
    world.until_settled().await;
    running.shutdown(TENTH).await;
    let runs = runs.lock().expect("lock");
    assert_eq!(runs.iter().sum::<usize>(), 20);
    assert_eq!(runs.iter().max(), Some(&3), "{runs:?}");
}

#[tokio::test(start_paused = true)]
async fn dsp_7_a_topic_has_its_own_retry() {
    let world = World::new();
    let own = Retry { backoff: Backoff::Fixed(Duration::from_secs(1)), max_attempts: 5 };
    let once = Retry { max_attempts: 1, ..own.clone() };
    let topics =
        vec![TopicConfig::new("own.*").retry(own), TopicConfig::new("own.once").retry(once)];
    let sink = Handlers::new().all(|_| async { Err(HandlerError::retry("no")) });
    let running = world.dispatcher(sink, config(topics)).start().expect("legal settings");
    let mut dead = Vec::new();
    for topic in ["own.five", "own.once", "other"] {
        dead.push(world.publish(Message::builder(topic)).await);
    }
    world.until_settled().await;
    assert_eq!(world.began.elapsed().as_secs(), 6, "two waits of 3 s, and four of 1 s");
    let mut attempts = Vec::new();
    for id in dead {
        let record = world.record(id).await;
        assert_eq!(record.reason, Some(DeadReason::Attempts));
        attempts.push(record.attempts);
    }
    assert_eq!(attempts, [5, 1, 3]);
    running.shutdown(TENTH).await;
}

#[tokio::test(start_paused = true)]
async fn wq_8_a_topic_s_own_maximum_counts_for_lost_leases_too() {
    let world = World::new();
    let id = world.publish(Message::builder("kills")).await;
    let queue = WorkQueue::new(Arc::clone(&world.store) as _);
    // The first lost lease is forgiven, the second is an attempt.
    for _ in 0..2 {
        let claimed = queue.claim(OwnerToken::random(), Duration::from_secs(1), 1).await;
        assert_eq!(claimed.expect("claim").items.len(), 1);
        sleep(Duration::from_secs(2)).await;
    }
    let once = Retry { max_attempts: 1, ..Retry::default() };
    let settings = config(vec![TopicConfig::new("kills").retry(once)]);
    let running = world.dispatcher(world.handlers(TENTH), settings).start().expect("legal");
    world.until_settled().await;
    running.shutdown(TENTH).await;
    let record = world.record(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::LostLeases)));
    assert!(world.started("kills").is_empty(), "it did not run again");
}

#[tokio::test(start_paused = true)]
async fn dsp_6_what_nobody_here_handles_is_left_to_others() {
    let world = World::new();
    let handles = |topic: &'static str| {
        let started = Arc::clone(&world.started);
        Handlers::new().unknown(UnknownTopic::Leave).topic(topic, move |delivery: Delivery| {
            let seen = delivery.message().topic().as_str().to_owned();
            assert_eq!(seen, topic);
            started.lock().expect("lock").entry(seen).or_default().push(Duration::ZERO);
            async { Ok(()) }
        })
    };
    let first = world.dispatcher(handles("a"), config(Vec::new())).start().expect("legal");
    world.publish_many("b", 10).await;
    world.publish_many("a", 10).await;
    sleep(Duration::from_secs(50)).await;
    let counts = first.snapshot().counts;
    assert_eq!((world.started("a").len(), counts.hot), (10, 10), "nothing of b is born leased");
    assert!(counts.claimed <= 20, "claimed and given back once: {counts:?}");
    let second = world.dispatcher(handles("b"), config(Vec::new())).start().expect("legal");
    world.until_settled().await;
    assert_eq!(world.started("b").len(), 10);
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.done, stats.failed), (20, 0));
    drop((first, second));
}

/// Claims can be told of a thousand topics. What is beyond that must not be claimed and given back
/// without end.
#[tokio::test(start_paused = true)]
async fn dsp_6_too_many_topics_to_leave_out_are_put_off() {
    let world = World::new();
    for n in 0..1_100 {
        world.publish(Message::builder(format!("other.{n}"))).await;
    }
    let sink = Handlers::new().unknown(UnknownTopic::Leave).topic("mine", |_| async { Ok(()) });
    let running = world.dispatcher(sink, cold(Vec::new())).start().expect("legal settings");
    sleep(Duration::from_secs(30)).await;
    let counts = running.snapshot().counts;
    assert!((1_100..5_000).contains(&counts.claimed), "{counts:?}");
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.ready + stats.waiting + stats.leased, stats.failed), (1_100, 0), "{stats:?}");
    running.shutdown(TENTH).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_10_too_many_topics_of_a_full_line_are_put_off() {
    let world = World::new();
    for n in 0..1_100 {
        world.publish(Message::builder(format!("slow.{n}"))).await;
    }
    let settings = cold(vec![TopicConfig::new("slow.*").concurrency(1)]);
    let sink = world.handlers(Duration::from_secs(5));
    let running = world.dispatcher(sink, settings).start().expect("legal settings");
    sleep(Duration::from_secs(30)).await;
    let counts = running.snapshot().counts;
    assert!((1_100..5_000).contains(&counts.claimed), "{counts:?}");
    assert!((5..=7).contains(&counts.done), "{counts:?}");
    running.shutdown(TENTH).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_14_messages_that_share_a_call_find_each_other() {
    let world = World::new();
    for _ in 0..40 {
        world.publish_many("metric", 1).await;
        world.publish_many("fast", 1).await;
    }
    let calls = Arc::new(Mutex::new(Vec::new()));
    let sizes = Arc::clone(&calls);
    let sink = world.handlers(TENTH).batch("metric", 10, move |deliveries: Vec<Delivery>| {
        sizes.lock().expect("lock").push(deliveries.len());
        async move { deliveries.iter().map(|_| Ok(())).collect() }
    });
    let settings = DispatcherConfig { workers: 2, ..cold(Vec::new()) };
    let running = world.dispatcher(sink, settings).start().expect("legal settings");
    world.until_settled().await;
    running.shutdown(TENTH).await;
    let calls = calls.lock().expect("lock");
    assert_eq!(calls.iter().sum::<usize>(), 40);
    assert!(calls.len() <= 8 && *calls.iter().max().expect("some") == 10, "{calls:?}");
    assert_eq!((world.started("fast").len(), world.started("metric").len()), (40, 40));
}

/// Writes down what it sees.
struct Audit {
    name: &'static str,
    log: Arc<Mutex<Vec<String>>>,
}

impl Interceptor for Audit {
    fn before<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, HandlerResult> {
        Box::pin(async move {
            let topic = delivery.message().topic();
            self.log.lock().expect("lock").push(format!("{} before {topic}", self.name));
            match (self.name, topic.as_str()) {
                ("one", "refused") => Err(HandlerError::dead("not allowed")),
                _ => Ok(()),
            }
        })
    }

    fn after<'a>(&'a self, delivery: &'a Delivery, outcome: &'a Outcome) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (name, topic) = (self.name, delivery.message().topic());
            self.log.lock().expect("lock").push(format!("{name} after {topic}: {outcome:?}"));
            assert!(topic.as_str() != "late panic", "an auditor's own fault");
        })
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_13_interceptors_see_every_message_before_and_after() {
    let cases = [
        ("fine", "Done", State::Done),
        ("late panic", "Done", State::Done),
        ("panic", r#"Failed("handler panicked: boom")"#, State::Dead),
        ("hangs", r#"Failed("timed out after 8s")"#, State::Dead),
        ("refused", r#"Permanent("not allowed")"#, State::Dead),
    ];
    for (topic, outcome, state) in cases {
        let world = World::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        let handled = Arc::clone(&log);
        let sink = Handlers::new().all(move |delivery: Delivery| {
            handled.lock().expect("lock").push("handled".to_owned());
            async move {
                match delivery.message().topic().as_str() {
                    "panic" => panic!("boom"),
                    "hangs" => std::future::pending().await,
                    _ => Ok(()),
                }
            }
        });
        let audit = |name| Audit { name, log: Arc::clone(&log) };
        let retry = Retry { max_attempts: 1, ..Retry::default() };
        let settings = DispatcherConfig { retry, ..config(Vec::new()) };
        let dispatcher = world.dispatcher(sink, settings);
        let running =
            dispatcher.intercept(audit("one")).intercept(audit("two")).start().expect("legal");
        let id = world.publish(Message::builder(topic)).await;
        world.until_settled().await;
        assert!(running.shutdown(Duration::from_secs(1)).await);
        let mut expected = vec![format!("one before {topic}")];
        if topic != "refused" {
            expected.extend([format!("two before {topic}"), "handled".to_owned()]);
        }
        expected.extend(["two", "one"].map(|name| format!("{name} after {topic}: {outcome}")));
        assert_eq!(*log.lock().expect("lock"), expected);
        assert_eq!(world.record(id).await.state, state, "{topic}");
    }
}

#[tokio::test(start_paused = true)]
async fn wq_6_expired_leases_that_no_claim_looks_at_are_reaped() {
    let world = World::new();
    world.publish_many("paused", 3).await;
    let queue = WorkQueue::new(Arc::clone(&world.store) as _);
    let gone = queue.claim(OwnerToken::random(), Duration::from_secs(1), 3).await.expect("claim");
    assert_eq!(gone.items.len(), 3);
    world.pause("paused").await;
    let running =
        world.dispatcher(world.handlers(TENTH), config(Vec::new())).start().expect("legal");
    // A lease, and as long as it waits for the poller's next look.
    sleep(Duration::from_secs(45)).await;
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.leased, running.snapshot().counts.reaped), (0, 3), "{stats:?}");
    running.shutdown(TENTH).await;
}

#[tokio::test(start_paused = true)]
async fn ret_1_what_is_old_is_deleted_and_what_is_not_stays() {
    let world = World::new();
    let hour = Duration::from_hours(1);
    let purge = Some(Purge { done: Some(hour), ..Purge::default() });
    let settings = DispatcherConfig { purge, ..config(Vec::new()) };
    let running = world.dispatcher(world.handlers(TENTH), settings).start().expect("legal");
    let old = world.publish(Message::builder("t")).await;
    let dies = Message::builder("t").expires_after(Duration::from_secs(1));
    let dead = world.publish(dies.due_after(Duration::from_secs(5))).await;
    sleep(3 * hour).await;
    let new = world.publish(Message::builder("t")).await;
    sleep(Duration::from_secs(1)).await;
    assert!(world.store.get(old).await.expect("get").is_none(), "done three hours ago");
    assert_eq!(world.record(dead).await.state, State::Dead);
    assert_eq!(world.record(new).await.state, State::Done);
    running.shutdown(TENTH).await;
}
