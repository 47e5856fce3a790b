//! Order through the dispatcher, over the in-memory store, under paused time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::{Outcome, State};
use postroom_core::store::{AdminStore, BoxFuture, Claim};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, Handlers, Message,
    MessageBuilder, MessageId, Outbox, OwnerToken, Retry, Running, Sink, WorkQueue,
};
use postroom_testkit::{Call, Fault, SimStore};
use tokio::time::sleep;

/// What was handled, by key: the payloads in the order of handling.
type Log = Arc<Mutex<HashMap<String, Vec<String>>>>;

struct World {
    store: Arc<SimStore>,
    outbox: Outbox<SimStore>,
    log: Log,
}

impl World {
    fn new() -> Self {
        Self::on(SimStore::default().ticking())
    }

    fn on(store: SimStore) -> Self {
        let store = Arc::new(store);
        Self { outbox: Outbox::new(Arc::clone(&store)), store, log: Arc::default() }
    }

    async fn publish(&self, key: &str, payloads: &[&str]) -> Vec<MessageId> {
        let messages = payloads.iter().map(|payload| of(key, payload));
        let published = self.outbox.publish_all(messages).await.expect("publish");
        published.into_iter().map(|published| published.id).collect()
    }

    /// Takes note of each message. Payloads say what happens: `fail:n` fails n times, `dead` is
    /// permanent, `slow` takes a second.
    fn handlers(&self) -> Handlers {
        let (log, busy) = (Arc::clone(&self.log), Arc::new(Mutex::new(HashSet::new())));
        Handlers::new().all(move |delivery: Delivery| {
            let (log, busy) = (Arc::clone(&log), Arc::clone(&busy));
            async move {
                let (key, payload) = read(&delivery);
                assert!(busy.lock().expect("lock").insert(key.clone()), "two of {key} at once");
                log.lock().expect("lock").entry(key.clone()).or_default().push(payload.clone());
                let time = if payload == "slow" { 1_000 } else { 1 };
                sleep(Duration::from_millis(time)).await;
                busy.lock().expect("lock").remove(&key);
                let fails = payload.strip_prefix("fail:").map_or(0, |n| n.parse().expect("n"));
                match payload.as_str() {
                    "dead" => Err(HandlerError::dead("never")),
                    _ if delivery.attempt() <= fails => Err(HandlerError::retry("not yet")),
                    _ => Ok(()),
                }
            }
        })
    }

    fn start(&self, sink: impl Sink) -> Running {
        self.start_with(sink, small())
    }

    fn start_with(&self, sink: impl Sink, config: DispatcherConfig) -> Running {
        let store = Arc::clone(&self.store);
        Dispatcher::new(store, sink).config(config).start().expect("legal settings")
    }

    fn handled(&self, key: &str) -> Vec<String> {
        self.log.lock().expect("lock").get(key).cloned().unwrap_or_default()
    }

    async fn state(&self, id: MessageId) -> State {
        self.store.get(id).await.expect("get").expect("it is there").record.state
    }

    async fn until_settled(&self) {
        for _ in 0..100_000 {
            let stats = self.store.stats().await.expect("stats");
            if stats.ready + stats.waiting + stats.leased == 0 {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("it never settles: {:?}", self.store.stats().await);
    }
}

fn of(key: &str, payload: &str) -> MessageBuilder {
    Message::builder("t").ordering_key(key).payload(payload.to_owned())
}

fn read(delivery: &Delivery) -> (String, String) {
    let message = delivery.message();
    let key = message.ordering_key().map_or_else(String::new, ToString::to_string);
    (key, String::from_utf8_lossy(message.payload()).into_owned())
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

#[tokio::test(start_paused = true)]
async fn ord_1_keys_run_in_parallel_and_each_in_order() {
    let world = World::new();
    for n in 0..30 {
        for key in 0..5 {
            world.publish(&key.to_string(), &[&n.to_string()]).await;
        }
    }
    let running = world.start(world.handlers());
    world.until_settled().await;
    assert!(running.shutdown(Duration::from_secs(1)).await);
    let expected: Vec<_> = (0..30).map(|n| n.to_string()).collect();
    for key in 0..5 {
        assert_eq!(world.handled(&key.to_string()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn ord_2_a_retry_holds_its_key_and_no_other() {
    let world = World::new();
    world.publish("a", &["fail:1", "second", "third"]).await;
    let running = world.start(world.handlers());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.handled("a"), ["fail:1"]);
    world.publish("b", &["1", "2"]).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.handled("b"), ["1", "2"], "another key does not wait");
    world.until_settled().await;
    assert_eq!(world.handled("a"), ["fail:1", "fail:1", "second", "third"]);
    running.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn ord_2_skip_goes_on_after_a_dead_message_and_halt_does_not() {
    let world = World::new();
    world.publish("a", &["dead", "second"]).await;
    let running = world.start(world.handlers());
    world.until_settled().await;
    assert_eq!(world.handled("a"), ["dead", "second"]);
    running.shutdown(Duration::from_secs(1)).await;

    let world = World::on(SimStore::default().ticking().halt(true));
    let ids = world.publish("a", &["dead", "second"]).await;
    world.publish("b", &["fine"]).await;
    let running = world.start(world.handlers());
    sleep(Duration::from_secs(120)).await;
    assert_eq!((world.handled("a").len(), world.handled("b").len()), (1, 1));
    assert_eq!(world.state(ids[1]).await, State::Ready);
    running.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn ord_1_a_long_backlog_of_one_key_does_not_wait_for_polls() {
    let world = World::new();
    let payloads: Vec<_> = (0..1_000).map(|n| n.to_string()).collect();
    let payloads: Vec<_> = payloads.iter().map(String::as_str).collect();
    world.publish("a", &payloads).await;
    let before = tokio::time::Instant::now();
    let running = world.start(world.handlers());
    world.until_settled().await;
    // A millisecond each, five claims; a poll takes a minute.
    assert!(before.elapsed() < Duration::from_secs(30), "{:?}", before.elapsed());
    assert_eq!(world.handled("a"), payloads);
    running.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_11_a_shutdown_gives_back_the_rest_and_the_slots_at_once() {
    let world = World::new();
    let ids = world.publish("a", &["slow", "second", "third"]).await;
    let running = world.start(world.handlers());
    sleep(Duration::from_millis(100)).await;
    assert!(running.shutdown(Duration::from_secs(5)).await);
    assert_eq!(world.handled("a"), ["slow"]);
    assert_eq!(world.state(ids[0]).await, State::Done);
    let queue = WorkQueue::new(Arc::clone(&world.store) as _);
    let items = queue.claim(OwnerToken::random(), Duration::from_secs(9), 9).await.expect("claim");
    let got: Vec<_> = items.items.iter().map(|item| (item.message.id(), item.attempts)).collect();
    assert_eq!(got, [(ids[1], 0), (ids[2], 0)]);
}

#[tokio::test(start_paused = true)]
async fn ord_1_an_unknown_settle_ends_the_run() {
    let world = World::new();
    world.publish("a", &["first", "second"]).await;
    // The first answer is lost, so is the second: whether "first" is done is not known.
    world.store.fail_next(Call::Settle, Fault::ReplyLost);
    world.store.fail_next(Call::Settle, Fault::Unavailable);
    let running = world.start(world.handlers());
    world.until_settled().await;
    assert_eq!(world.handled("a"), ["first", "second"], "each once, in order");
    running.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn ord_1_two_dispatchers_share_the_keys() {
    let world = World::new();
    let config = || DispatcherConfig { poll_interval: Duration::from_millis(50), ..small() };
    let handlers = world.handlers();
    let other = World { log: Arc::clone(&world.log), ..World::on((*world.store).clone()) };
    let running =
        [world.start_with(handlers, config()), other.start_with(other.handlers(), config())];
    for n in 0..50 {
        for key in 0..20 {
            world.publish(&key.to_string(), &[&format!("{n}")]).await;
        }
        sleep(Duration::from_millis(20)).await;
    }
    world.until_settled().await;
    let expected: Vec<_> = (0..50).map(|n| n.to_string()).collect();
    for key in 0..20 {
        assert_eq!(world.handled(&key.to_string()), expected, "key {key}");
    }
    for running in running {
        assert!(running.shutdown(Duration::from_secs(1)).await);
    }
}

#[tokio::test(start_paused = true)]
async fn ord_1_a_run_of_a_dead_owner_is_taken_over_in_order() {
    let world = World::new();
    world.publish("a", &["1", "2", "3"]).await;
    let queue = WorkQueue::new(Arc::clone(&world.store) as _);
    let claim = Claim::new(OwnerToken::random(), Duration::from_secs(10), 9).expect("legal");
    assert_eq!(queue.claim_with(&claim).await.expect("claim").items.len(), 3);
    let config = DispatcherConfig { poll_interval: Duration::from_secs(1), ..small() };
    let running = world.start_with(world.handlers(), config);
    sleep(Duration::from_secs(9)).await;
    assert!(world.handled("a").is_empty());
    world.until_settled().await;
    assert_eq!(world.handled("a"), ["1", "2", "3"]);
    running.shutdown(Duration::from_secs(1)).await;
}

/// Takes runs; fails at the payloads that say so, and claims to have done what comes behind them.
struct Runs(Log);

impl Sink for Runs {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcome = |delivery: &Delivery| {
                let (key, payload) = read(delivery);
                self.0.lock().expect("lock").entry(key).or_default().push(payload.clone());
                match payload == "fail:1" && delivery.attempt() == 1 {
                    true => Outcome::Failed("not yet".to_owned()),
                    false => Outcome::Done,
                }
            };
            batch.iter().map(outcome).collect()
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
async fn dsp_14_a_sink_that_takes_runs_gets_them_and_what_is_behind_a_failure_again() {
    let world = World::new();
    let ids = world.publish("a", &["1", "fail:1", "3", "4"]).await;
    let running = world.start(Runs(Arc::clone(&world.log)));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.handled("a"), ["1", "fail:1", "3", "4"], "in one batch");
    assert_eq!(world.state(ids[0]).await, State::Done);
    assert_eq!(world.state(ids[2]).await, State::Ready, "done or not, it comes again");
    world.until_settled().await;
    assert_eq!(world.handled("a")[4..], ["fail:1", "3", "4"]);
    running.shutdown(Duration::from_secs(1)).await;
}

struct Choosy(Handlers);

impl Sink for Choosy {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        self.0.deliver(batch)
    }

    fn takes_every_topic(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn ord_1_a_sink_that_is_choosy_gets_no_ordered_messages() {
    let world = World::new();
    let id = world.publish("a", &["1"]).await[0];
    let running = world.start(Choosy(world.handlers()));
    sleep(Duration::from_secs(200)).await;
    assert_eq!(world.state(id).await, State::Ready);
    running.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn ord_2_a_drain_stops_behind_a_failure_and_the_next_goes_on() {
    let world = World::new();
    world.publish("a", &["1", "fails", "3"]).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let drain = || {
        let seen = Arc::clone(&seen);
        postroom_testkit::drain(Arc::clone(&world.store) as _, move |item| {
            let payload = String::from_utf8_lossy(item.message.payload()).into_owned();
            let first = payload == "fails" && item.attempts == 0;
            seen.lock().expect("lock").push(payload);
            async move { if first { Outcome::Failed("no".to_owned()) } else { Outcome::Done } }
        })
    };
    assert_eq!(drain().await.expect("drain"), 2);
    assert_eq!(drain().await.expect("drain"), 0);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(drain().await.expect("drain"), 2);
    assert_eq!(*seen.lock().expect("lock"), ["1", "fails", "fails", "3"]);
}
