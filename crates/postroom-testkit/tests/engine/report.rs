//! What people see of dispatchers: who lives, who stops, who is gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::store::{AdminStore, BoxFuture, Claimed, Node, Reaped, Store};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, Error, ErrorKind, Handlers, Message, Outbox, Result,
    Running,
};
use postroom_testkit::SimStore;
use postroom_testkit::around::{Around, Wrapped};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);

async fn nodes(store: &SimStore) -> Vec<Node> {
    store.nodes().await.expect("nodes")
}

async fn until_nodes(store: &SimStore, wanted: impl Fn(&[Node]) -> bool) -> Vec<Node> {
    loop {
        let nodes = nodes(store).await;
        if wanted(&nodes) {
            return nodes;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Handlers that wait for a permit.
fn gated(gate: &Arc<Semaphore>) -> Handlers {
    let gate = Arc::clone(gate);
    Handlers::new().all(move |_: Delivery| {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.expect("it is never closed").forget();
            Ok(())
        }
    })
}

fn start<S: Store>(store: &Arc<S>, name: &str, handlers: Handlers) -> Running {
    let config = DispatcherConfig { name: Some(name.to_owned()), ..DispatcherConfig::default() };
    let store = Arc::clone(store) as Arc<dyn Store>;
    Dispatcher::new(store, handlers).config(config).start().expect("legal settings")
}

/// Each dispatcher has a runtime of its own, so that one can be killed like a process.
#[test]
fn adm_1_dispatchers_appear_and_disappear_and_who_is_killed_is_not_live() {
    let runtime = || Runtime::new().expect("a runtime");
    let (tests, first, second) = (runtime(), runtime(), runtime());
    let store = Arc::new(SimStore::default());
    let gate = Arc::new(Semaphore::new(0));
    let begin = |process: &Runtime, name: &str| {
        let _inside = process.enter();
        start(&Arc::new(store.as_another_process()), name, gated(&gate))
    };
    let doomed = begin(&first, "doomed");
    let (owner, publish) = (doomed.owner(), Outbox::new(Arc::clone(&store)));
    tests.block_on(async {
        let messages = (0..3).map(|n| Message::builder("t").ordering_key(n.to_string()));
        publish.publish_all(messages).await.expect("publish");
        let seen = until_nodes(&store, |nodes| nodes.iter().any(|node| node.leases == 3)).await;
        let Node { name, version, is_live, draining, slots, .. } = &seen[0];
        assert_eq!((name.as_str(), version.as_str()), ("doomed", env!("CARGO_PKG_VERSION")));
        assert_eq!((seen.len(), seen[0].owner), (1, owner));
        assert_eq!((*is_live, *draining, *slots), (true, false, 256));
    });
    let stopped = begin(&second, "stopped");
    tests.block_on(async {
        let seen = until_nodes(&store, |nodes| nodes.len() == 2).await;
        assert!(seen.iter().all(|node| node.is_live && !node.draining), "{seen:?}");
        assert!(stopped.shutdown(10 * SECOND).await, "it had nothing to do");
        let seen = nodes(&store).await;
        assert_eq!((seen.len(), seen[0].owner), (1, owner), "who stops is gone at once");
    });
    first.shutdown_background();
    drop(doomed);
    tests.block_on(async {
        assert!(nodes(&store).await[0].is_live, "nobody can know yet");
        store.clock().advance(30 * SECOND);
        let seen = nodes(&store).await;
        assert_eq!((seen.len(), seen[0].is_live, seen[0].leases), (1, false, 0));
        store.clock().advance(Duration::from_hours(24));
        assert!(nodes(&store).await.is_empty(), "after a day it is forgotten");
    });
}

/// Counts reports, and answers them as it is told.
#[derive(Debug)]
struct Reports {
    count: AtomicUsize,
    answer: Answer,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Store,
    Error,
    Never,
}

impl Around for Reports {
    fn report<'a>(&'a self, call: BoxFuture<'a, Result<()>>) -> BoxFuture<'a, Result<()>> {
        self.count.fetch_add(1, Ordering::SeqCst);
        match self.answer {
            Answer::Store => call,
            Answer::Error => Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "away")) }),
            Answer::Never => Box::pin(std::future::pending()),
        }
    }
}

fn reporting(store: &Arc<SimStore>, answer: Answer) -> Arc<Wrapped<SimStore, Reports>> {
    let reports = Reports { count: AtomicUsize::new(0), answer };
    Arc::new(Wrapped::new(Arc::clone(store), reports))
}

fn reports(store: &Wrapped<SimStore, Reports>) -> usize {
    store.around().count.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn p11_a_dispatcher_reports_at_once_and_then_with_a_claim_after_ten_seconds() {
    let store = Arc::new(SimStore::default().ticking());
    let counted = reporting(&store, Answer::Store);
    let running = start(&counted, "x", Handlers::new());
    sleep(SECOND).await;
    assert_eq!(reports(&counted), 1);
    sleep(60 * SECOND).await;
    let before = reports(&counted);
    assert!((5..=7).contains(&before), "{before}: every 10 to 15 s");
    let node = nodes(&store).await.remove(0);
    assert!(node.is_live && node.seen_at.since(node.started_at) >= 45 * SECOND, "{node:?}");
    assert!(running.shutdown(SECOND).await);
    let last = reports(&counted);
    assert!(last <= before + 1, "one more at most, as it began to stop");
    sleep(60 * SECOND).await;
    assert_eq!(reports(&counted), last, "nothing is heard of it any more");
    assert!(nodes(&store).await.is_empty());
}

/// When the store was asked what.
#[derive(Debug, Default)]
struct Asked(Mutex<Vec<(&'static str, Instant)>>);

impl Asked {
    fn note(&self, what: &'static str) {
        self.0.lock().expect("lock").push((what, Instant::now()));
    }
}

impl Around for Asked {
    fn claim<'a>(&'a self, call: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        self.note("claim");
        call
    }

    fn reap<'a>(&'a self, call: BoxFuture<'a, Result<Reaped>>) -> BoxFuture<'a, Result<Reaped>> {
        self.note("reap");
        call
    }

    fn report<'a>(&'a self, call: BoxFuture<'a, Result<()>>) -> BoxFuture<'a, Result<()>> {
        self.note("report");
        call
    }
}

/// Among hundreds of stores that share few connections, each visit is a connection.
#[tokio::test(start_paused = true)]
async fn p11_an_idle_dispatcher_asks_everything_at_one_time() {
    let store = Arc::new(SimStore::default().ticking());
    let asked = Arc::new(Wrapped::new(store, Asked::default()));
    let config = DispatcherConfig {
        idle_interval: Some(30 * SECOND),
        purge: None,
        ..DispatcherConfig::default()
    };
    let running = Dispatcher::new(Arc::clone(&asked) as Arc<dyn Store>, Handlers::new());
    let running = running.config(config).start().expect("legal settings");
    // Until it has become used to having nothing to do.
    sleep(300 * SECOND).await;
    asked.around().0.lock().expect("lock").clear();
    sleep(600 * SECOND).await;
    let all = asked.around().0.lock().expect("lock").clone();
    let count = |what| all.iter().filter(|(asked, _)| *asked == what).count();
    let counts = (count("claim"), count("reap"), count("report"));
    assert!((20..=27).contains(&counts.0), "{counts:?}: a claim every 24 to 30 s");
    assert!((8..=20).contains(&counts.1) && (12..=27).contains(&counts.2), "{counts:?}");
    for (what, at) in &all {
        let is_visit = |(other, claimed): &(&str, Instant)| {
            *other == "claim" && at.saturating_duration_since(*claimed) < SECOND / 10
        };
        assert!(all.iter().any(is_visit), "{what} came without a claim: {all:?}");
    }
    running.shutdown(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_11_a_dispatcher_that_stops_says_so() {
    let store = Arc::new(SimStore::default().ticking());
    let gate = Arc::new(Semaphore::new(0));
    let running = start(&store, "x", gated(&gate));
    Outbox::new(Arc::clone(&store)).publish(Message::builder("t")).await.expect("publish");
    until_nodes(&store, |nodes| nodes.iter().any(|node| node.leases == 1)).await;
    let stopping = tokio::spawn(running.shutdown(60 * SECOND));
    until_nodes(&store, |nodes| nodes[0].draining).await;
    // It takes longer than one report is good for.
    sleep(20 * SECOND).await;
    let node = nodes(&store).await.remove(0);
    assert!(node.is_live && node.draining, "{node:?}");
    gate.add_permits(1);
    assert!(stopping.await.expect("it ends"), "in time");
    assert!(nodes(&store).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn dsp_12_reports_that_fail_or_hang_keep_nothing_up() {
    for answer in [Answer::Error, Answer::Never] {
        let store = Arc::new(SimStore::default().ticking());
        let engine = reporting(&store, answer);
        let running = start(&engine, "x", Handlers::new().all(|_: Delivery| async { Ok(()) }));
        let began = Instant::now();
        Outbox::new(Arc::clone(&store)).publish(Message::builder("t")).await.expect("publish");
        while store.stats().await.expect("stats").done == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(began.elapsed() < SECOND, "{answer:?}: delivery waited {:?}", began.elapsed());
        sleep(60 * SECOND).await;
        assert!(reports(&engine) >= 3, "{answer:?}: it goes on trying");
        let began = Instant::now();
        assert!(running.shutdown(SECOND).await);
        assert!(began.elapsed() <= SECOND, "{answer:?}: it stopped after {:?}", began.elapsed());
    }
}

/// With a lease of a second some reap waits for its turn while a report hangs for three.
#[tokio::test(start_paused = true)]
async fn dsp_11_a_reap_behind_a_report_that_hangs_does_not_keep_a_stop() {
    let engine = reporting(&Arc::new(SimStore::default().ticking()), Answer::Never);
    let config = DispatcherConfig {
        lease: SECOND,
        handler_timeout: SECOND / 2,
        ..DispatcherConfig::default()
    };
    let dispatcher = Dispatcher::new(Arc::clone(&engine) as Arc<dyn Store>, Handlers::new());
    let running = dispatcher.config(config).start().expect("legal settings");
    let before = reports(&engine);
    while reports(&engine) == before {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(SECOND * 3 / 2).await;
    let began = Instant::now();
    assert!(running.shutdown(SECOND).await);
    assert!(began.elapsed() <= SECOND, "it stopped after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn adm_1_without_a_name_a_dispatcher_is_known_by_its_process() {
    let store = Arc::new(SimStore::default().ticking());
    let running =
        Dispatcher::new(Arc::clone(&store) as _, Handlers::new()).start().expect("starts");
    let node = until_nodes(&store, |nodes| !nodes.is_empty()).await.remove(0);
    assert!(node.name.ends_with(&std::process::id().to_string()), "{}", node.name);
    assert!(running.shutdown(SECOND).await);
}
