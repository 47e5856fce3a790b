//! What a dispatcher tells about itself: log events, figures, metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use postroom_core::observe::METRICS;
use postroom_core::store::{AdminStore, Store as _};
use postroom_core::{
    Backoff, Delivery, Depth, Dispatcher, DispatcherConfig, HandlerError, Handlers, Message,
    Outbox, Retry, Snapshot,
};
use postroom_testkit::{Call, Fault, SimStore};
use tokio::time::sleep;
use tracing_subscriber::fmt::MakeWriter;
use uuid::Uuid;

/// Runs a story under paused time on this very thread: recorders and subscribers are per thread.
fn run<T>(story: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime").block_on(story)
}

/// Six messages: three are done, one of them at the second try; one dies, one expires, one was
/// there before. Two find no place in the hot queue.
async fn story() -> Snapshot {
    let store = Arc::new(SimStore::default().ticking());
    let outbox = Outbox::new(Arc::clone(&store));
    let sink = Handlers::new().all(|delivery: Delivery| async move {
        sleep(Duration::from_millis(100)).await;
        match (delivery.message().topic().as_str(), delivery.attempt()) {
            ("dies", _) => Err(HandlerError::dead("no such customer")),
            ("again", 1) => Err(HandlerError::retry("try again")),
            _ => Ok(()),
        }
    });
    let backoff = Backoff::Fixed(Duration::from_secs(1));
    let config = DispatcherConfig {
        hot_queue: 2,
        retry: Retry { backoff, max_attempts: 7 },
        ..DispatcherConfig::default()
    };
    let running = Dispatcher::new(Arc::clone(&store) as _, sink).config(config).start();
    let running = running.expect("legal settings");
    let keyed = || {
        let key = Uuid::from_u128(7);
        Message::builder("fine").idempotency_key(key).tenant_id("acme")
    };
    let published = outbox
        .publish_all([
            keyed().correlation_id("corr-1").payload("SECRET").header("x-card", "SECRET"),
            Message::builder("fine"),
            Message::builder("again"),
            Message::builder("dies"),
        ])
        .await;
    assert_eq!(published.expect("publish").len(), 4);
    sleep(Duration::from_millis(300)).await;
    outbox.publish(keyed().payload("SECRET").header("x-card", "SECRET")).await.expect("publish");
    let late = Message::builder("late").due_after(Duration::from_secs(9));
    outbox.publish(late.expires_after(Duration::from_secs(3))).await.expect("publish");
    sleep(Duration::from_secs(5)).await;
    store.fail_next(Call::Claim, Fault::Unavailable);
    sleep(Duration::from_secs(25)).await;
    let snapshot = running.snapshot().with_stats(store.stats().await.expect("stats"));
    running.shutdown(Duration::from_secs(1)).await;
    snapshot
}

#[test]
fn obs_3_a_snapshot_has_all_figures() {
    let snapshot = run(story());
    let counts = &snapshot.counts;
    assert_eq!((counts.enqueued, counts.hot, counts.hot_dropped, counts.duplicates), (5, 2, 2, 1));
    // Two by the first claim, and one again after its retry.
    assert_eq!((counts.claimed, counts.done, counts.failed), (3, 3, 1));
    assert_eq!((counts.dead, counts.leases_lost, counts.reaped), (2, 0, 0));
    assert_eq!((snapshot.handler.count, snapshot.delivery.count), (4, 3));
    let tenth = Duration::from_millis(100);
    assert!((tenth..=tenth * 5 / 4).contains(&snapshot.handler.p50), "{:?}", snapshot.handler);
    let longest = snapshot.delivery.longest;
    assert!((1_200..1_300).contains(&longest.as_millis()), "with its retry: {longest:?}");
    assert_eq!((snapshot.minute.done, snapshot.minute.failed), (3, 2));
    assert_eq!(snapshot.minute.failure_ratio, 0.4);
    let depths = (snapshot.hot.expect("running"), snapshot.cold.expect("running"));
    assert_eq!((depths.0.held, depths.0.size, depths.1.held), (0, 2, 0));
    assert_eq!((snapshot.running, snapshot.stats.expect("asked").dead), (Some(0), 2));
}

#[test]
fn obs_3_the_same_as_json_in_seconds() {
    let json: serde_json::Value = serde_json::from_str(&run(story()).to_json()).expect("JSON");
    assert_eq!((&json["store"], &json["queue"]), (&"sim".into(), &"outbox".into()));
    assert_eq!((&json["counts"]["done"], &json["stats"]["done"]), (&3.into(), &3.into()));
    let p50 = json["handler"]["p50"].as_f64().expect("a number");
    assert!((0.1..=0.125).contains(&p50), "{json}");
    assert_eq!(json["minute"]["failure_ratio"], 0.4);
}

#[test]
fn obs_2_the_same_figures_go_to_the_metrics_facade() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || run(story()).record());
    let mut seen = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: BTreeMap<_, _> =
            key.key().labels().map(|label| (label.key(), label.value())).collect();
        assert_eq!((labels["store"], labels["queue"]), ("sim", "outbox"));
        let topic = labels.get("topic").or_else(|| labels.get("window"));
        let topic = topic.map(|topic| format!("{{{topic}}}")).unwrap_or_default();
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        seen.insert(format!("{}{topic}", key.key().name()), value);
    }
    let expected = [
        ("postroom_enqueued_total{fine}", 2.0),
        ("postroom_enqueued_total{late}", 1.0),
        ("postroom_hot_enqueued_total", 2.0),
        ("postroom_hot_dropped_total", 2.0),
        ("postroom_duplicates_total{fine}", 1.0),
        ("postroom_claimed_total", 3.0),
        ("postroom_batch_size", 2.0),
        ("postroom_delivered_total{fine}", 2.0),
        ("postroom_delivered_total{again}", 1.0),
        ("postroom_delivery_failures_total{again}", 1.0),
        ("postroom_dead_total{dies}", 1.0),
        ("postroom_dead_total{(unknown)}", 1.0),
        ("postroom_delivery_duration_seconds{again}", 2.0),
        ("postroom_delivery_lag_seconds{fine}", 2.0),
        ("postroom_hot_queue", 0.0),
        ("postroom_cold_queue", 0.0),
        ("postroom_running", 0.0),
        ("postroom_pending", 0.0),
        ("postroom_retrying", 0.0),
        ("postroom_in_flight", 0.0),
        ("postroom_dead_letters", 2.0),
        ("postroom_oldest_pending_age_seconds", 0.0),
        ("postroom_failure_ratio{1m}", 0.4),
        ("postroom_failure_ratio{5m}", 0.4),
    ];
    for (name, value) in expected {
        assert_eq!(seen.get(name), Some(&value), "{name} in {seen:#?}");
    }
    assert!(seen["postroom_delivered_per_second{1m}"] > 0.0);
    assert!(seen["postroom_claim_duration_seconds"] > 3.0, "empty claims count too");
    let known: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    for name in seen.keys().filter_map(|name| name.split('{').next()) {
        assert!(known.contains(name), "{name} is not in METRICS");
    }
}

/// The table of the reference is this list, row by row.
#[test]
fn obs_2_the_reference_has_every_metric_as_it_is() {
    let documented = include_str!("../../../../docs/reference/metrics.md");
    let mut rows = documented.lines().filter(|line| line.starts_with("| `postroom_"));
    for metric in METRICS {
        let (kind, labels) = (metric.kind.as_str(), metric.labels.join(", "));
        let row = format!("| `{}` | {kind} | {labels} | {} |", metric.name, metric.help);
        assert_eq!(rows.next(), Some(row.as_str()));
    }
    assert_eq!(rows.next(), None);
}

/// Whoever has the store sees how full the queues of its dispatchers are, and that they live.
#[test]
fn obs_3_a_store_knows_the_depths_of_its_dispatchers() {
    run(async {
        let store = Arc::new(SimStore::default().ticking());
        assert_eq!((store.local().snapshot().hot, store.local().snapshot().beat), (None, None));
        let sink = || {
            Handlers::new().all(|_: Delivery| async {
                sleep(Duration::from_secs(3)).await;
                Ok(())
            })
        };
        let config = DispatcherConfig { hot_queue: 5, cold_queue: 7, ..Default::default() };
        let start = || {
            let dispatcher = Dispatcher::new(Arc::clone(&store) as _, sink());
            dispatcher.config(config.clone()).start().expect("legal settings")
        };
        let (first, second) = (start(), start());
        let outbox = Outbox::new(Arc::clone(&store));
        outbox.publish_all([Message::builder("a"), Message::builder("b")]).await.expect("publish");
        sleep(Duration::from_secs(1)).await;
        let snapshot = store.local().snapshot();
        assert_eq!(snapshot.hot, Some(Depth { held: 2, size: 10 }));
        assert_eq!(snapshot.cold.map(|depth| depth.size), Some(14));
        assert_eq!((snapshot.running, snapshot.dispatchers), (Some(2), 2));
        assert!(snapshot.beat.expect("they live") <= Duration::from_millis(500), "{snapshot:?}");
        let own = first.snapshot();
        assert_eq!((own.hot, own.dispatchers), (Some(Depth { held: 2, size: 5 }), 1));
        first.shutdown(Duration::from_secs(5)).await;
        second.shutdown(Duration::from_secs(5)).await;
        // What they leave behind ends a moment later.
        sleep(Duration::from_secs(1)).await;
        let snapshot = store.local().snapshot();
        assert_eq!((snapshot.hot, snapshot.running, snapshot.dispatchers), (None, None, 0));
    });
}

/// OBS-2 wants labels bounded, whatever producers call their topics.
#[test]
fn obs_2_topics_beyond_a_hundred_share_a_label() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        run(async {
            let outbox = Outbox::new(Arc::new(SimStore::default()));
            let messages = (0..150).map(|n| Message::builder(format!("topic.{n}")));
            outbox.publish_all(messages).await.expect("publish");
        });
    });
    let enqueued: Vec<_> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter(|(key, ..)| key.key().name() == "postroom_enqueued_total")
        .collect();
    assert_eq!(enqueued.len(), 101);
    let others = enqueued
        .iter()
        .find(|(key, ..)| key.key().labels().any(|label| label.value() == "(others)"))
        .expect("the rest");
    assert_eq!(others.3, DebugValue::Counter(50));
}

/// X18: a million ordering keys (a tenth of that outside of the full gate) and ten thousand topics
/// leave as many series as a hundred topics.
#[test]
fn x18_series_do_not_grow_with_keys_and_topics() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let mut counts = Vec::new();
    let chunks = if std::env::var_os("POSTROOM_TEST_FULL").is_some() { 100 } else { 10 };
    metrics::with_local_recorder(&recorder, || {
        run(async {
            let store = Arc::new(SimStore::default().ticking());
            let outbox = Outbox::new(Arc::clone(&store));
            for chunk in 0..chunks {
                // They are rolled back, or the store would have to hold a million of them.
                let mut tx = outbox.begin().await.expect("begin");
                for n in 0..10_000 {
                    let key = format!("{chunk}/{n}");
                    tx.publish(Message::builder(format!("topic.{n}")).ordering_key(key))
                        .expect("legal");
                }
                tx.flush().await.expect("flush");
                tx.rollback().await.expect("rollback");
                if chunk == 0 || chunk == chunks / 2 {
                    counts.push(snapshotter.snapshot().into_vec().len());
                }
            }
        });
    });
    counts.push(snapshotter.snapshot().into_vec().len());
    assert_eq!(counts[0], counts[1], "{counts:?}");
    assert_eq!(counts[0], *counts.last().expect("counted"), "{counts:?}");
}

#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("lock").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Everything that the story logs.
fn log() -> Vec<String> {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || run(story()));
    let bytes = lines.0.lock().expect("lock");
    String::from_utf8_lossy(&bytes).lines().map(ToOwned::to_owned).collect()
}

#[test]
fn obs_1_events_have_stable_names_levels_and_fields() {
    let log = log();
    let expected: [(&str, &str, &[&str]); 10] = [
        ("INFO", "enqueued", &["topic=fine", "correlation=corr-1", "id="]),
        ("INFO", "OUTBOX_WORKER_DUPLICATE", &["tenant=acme", "key="]),
        ("DEBUG", "OUTBOX_WORKER_FETCH", &["count=2"]),
        ("INFO", "handling a message", &["topic=fine", "id=", "attempt=1"]),
        ("INFO", "OUTBOX_WORKER_DISPATCH_SUCCESS", &["id=", "key="]),
        ("ERROR", "OUTBOX_WORKER_DISPATCH_FAIL", &["id=", "key=", "retry=1", "max=7"]),
        ("ERROR", "a message is dead", &["id=", "topic=dies", "reason=\"permanent error\""]),
        ("WARN", "the hot queue is full", &["size=2"]),
        ("ERROR", "the store does not answer", &["during=\"claim\""]),
        ("INFO", "the store answers again", &["during=\"claim\""]),
    ];
    for (level, event, fields) in expected {
        let found = log.iter().find(|line| {
            line.contains(event)
                && line.split_whitespace().nth(1) == Some(level)
                && fields.iter().all(|field| line.contains(field))
        });
        assert!(found.is_some(), "{level} {event} {fields:?} in\n{}", log.join("\n"));
    }
}

#[test]
fn obs_1_every_line_carries_the_store_and_none_a_secret() {
    let log = log();
    assert!(log.len() > 15, "{}", log.len());
    for line in log {
        assert!(line.contains("store=\"sim\""), "{line}");
        assert!(!line.contains("SECRET"), "{line}");
    }
}
