//! Pauses and the dispatcher, under paused time: what is queued is given back, what runs finishes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::store::{AdminStore, BoxFuture, Pause, Paused, Stats};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, Handlers, Message, MessageBuilder, Outbox, Result,
    Running, Topic,
};
use postroom_testkit::SimStore;
use postroom_testkit::around::{Around, Wrapped};
use tokio::time::{Instant, sleep};

/// Counts how often somebody asks what is paused.
#[derive(Debug)]
struct Looks(Arc<AtomicU32>);

impl Around for Looks {
    fn paused<'a>(&'a self, call: BoxFuture<'a, Result<Paused>>) -> BoxFuture<'a, Result<Paused>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        call
    }
}

struct World {
    store: SimStore,
    looks: Arc<AtomicU32>,
    /// The payloads of what was handled, in order.
    handled: Arc<Mutex<Vec<String>>>,
    running: Running,
}

impl World {
    /// A store with these messages, and a dispatcher with one worker that takes 1.8 s each: never
    /// as long as until the next look for pauses.
    async fn with(messages: Vec<MessageBuilder>) -> Self {
        let store = SimStore::default().ticking();
        publish(&store, messages).await;
        let (looks, handled) = (Arc::<AtomicU32>::default(), Arc::<Mutex<Vec<_>>>::default());
        let seen = Arc::clone(&handled);
        let handlers = Handlers::new().all(move |delivery: Delivery| {
            let payload = String::from_utf8_lossy(delivery.message().payload()).into_owned();
            seen.lock().expect("lock").push(payload);
            async {
                sleep(Duration::from_millis(1_800)).await;
                Ok(())
            }
        });
        let counting = Wrapped::new(Arc::new(store.clone()), Looks(Arc::clone(&looks)));
        let config = DispatcherConfig {
            workers: 1,
            poll_interval: Duration::from_secs(600),
            ..DispatcherConfig::default()
        };
        let dispatcher = Dispatcher::new(Arc::new(counting), handlers).config(config);
        Self { store, looks, handled, running: dispatcher.start().expect("starts") }
    }

    fn handled(&self) -> Vec<String> {
        self.handled.lock().expect("lock").clone()
    }

    async fn pause(&self, topic: Option<&str>) {
        let pause = Pause { topic: topic.map(named), ..Pause::default() };
        assert!(self.store.pause(&pause).await.expect("pause"));
    }

    async fn resume(&self, topic: Option<&str>) {
        assert!(self.store.resume(topic.map(named).as_ref()).await.expect("resume"));
    }

    async fn stats(&self) -> Stats {
        self.store.stats().await.expect("stats")
    }
}

fn named(topic: &str) -> Topic {
    Topic::new(topic).expect("legal")
}

async fn publish(store: &SimStore, messages: Vec<MessageBuilder>) {
    let outbox = Outbox::new(Arc::new(store.clone()));
    outbox.publish_all(messages).await.expect("publish");
}

fn some(topic: &str, n: usize) -> Vec<MessageBuilder> {
    (0..n).map(|i| Message::builder(topic).payload(format!("{topic}{i}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn dsp_10_what_is_queued_is_given_back_and_what_runs_finishes() {
    let world = World::with(some("a", 4).into_iter().chain(some("b", 2)).collect()).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!((world.handled().len(), world.stats().await.leased), (1, 6));
    world.pause(Some("a")).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.handled(), ["a0", "b0", "b1"]);
    let stats = world.stats().await;
    assert_eq!((stats.done, stats.ready, stats.leased, stats.failed), (3, 3, 0, 0));

    world.resume(Some("a")).await;
    let before = Instant::now();
    while world.stats().await.done < 6 {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(before.elapsed() < Duration::from_millis(6_100), "{:?}", before.elapsed());
    assert_eq!(world.handled()[3..], ["a1", "a2", "a3"]);
    assert!(world.running.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn dsp_10_a_pause_reaches_messages_that_never_were_claimed() {
    let world = World::with(Vec::new()).await;
    sleep(Duration::from_millis(100)).await;
    publish(&world.store, some("a", 3)).await;
    sleep(Duration::from_millis(100)).await;
    world.pause(None).await;
    publish(&world.store, some("b", 1)).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.handled(), ["a0"]);
    let stats = world.stats().await;
    assert_eq!((stats.done, stats.ready, stats.leased), (1, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn dsp_10_the_rest_of_a_key_is_given_back_behind_a_paused_message() {
    let of_key = |topic: &str| some(topic, 1).remove(0).ordering_key("k");
    let world = World::with(vec![of_key("a"), of_key("b"), of_key("c")]).await;
    sleep(Duration::from_millis(100)).await;
    world.pause(Some("b")).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.handled(), ["a0"]);
    assert_eq!(world.stats().await.ready, 2);
    world.resume(Some("b")).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.handled(), ["a0", "b0", "c0"]);
}

#[tokio::test(start_paused = true)]
async fn dsp_9_nobody_looks_for_pauses_when_nothing_waits() {
    let world = World::with(some("a", 1)).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(world.handled().len(), 1);
    assert_eq!(world.looks.load(Ordering::Relaxed), 0, "what runs does not wait");
    publish(&world.store, some("b", 3)).await;
    sleep(Duration::from_secs(600)).await;
    let looks = world.looks.load(Ordering::Relaxed);
    assert!((6..=10).contains(&looks), "twice a second while something waits, got {looks}");
}
