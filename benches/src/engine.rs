//! The whole engine on PostgreSQL: ordered against unordered drains (P7), the hot path against
//! publishing alone (P2), and the way from a commit to a handler (P3).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_core::lifecycle::Outcome;
use postroom_core::store::{BoxFuture, Store, Wakes};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, Message, MessageBuilder, MessageId, Outbox, Running,
    Sink,
};
use postroom_stores::{PgStore, StoreConfig};
use sqlx::{Executor, PgPool};

use crate::Plan;
use crate::fill::bytes_of;
use crate::postgres::fresh;
use crate::report::{Figure, Latency, Rates, ratio};

/// What a backlog looks like.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Unordered,
    Keys(usize),
    /// 10,000 keys; as many messages again are behind one that waits.
    HalfBlocked,
    /// One key, and a sink that takes runs.
    OneKey,
}

const BLOCKED: &str = "blocked";

/// Does nothing, and counts.
struct Counting {
    done: Arc<AtomicUsize>,
    takes_runs: bool,
}

impl Sink for Counting {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move { batch.iter().map(|delivery| self.outcome(delivery)).collect() })
    }

    fn max_batch(&self) -> usize {
        if self.takes_runs { 500 } else { 1 }
    }

    fn takes_runs(&self) -> bool {
        self.takes_runs
    }
}

impl Counting {
    fn outcome(&self, delivery: &Delivery) -> Outcome {
        let key = delivery.message().ordering_key();
        if key.is_some_and(|key| key.as_str() == BLOCKED) {
            let (delay, error) = (Duration::from_hours(1), "blocked".to_owned());
            return Outcome::RetryAfter { delay, counted: false, error };
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        Outcome::Done
    }
}

fn config(plan: Plan) -> DispatcherConfig {
    DispatcherConfig {
        workers: 16,
        batch: plan.batch,
        cold_queue: 4 * plan.batch as usize,
        ..DispatcherConfig::default()
    }
}

/// Ordered drains next to an unordered one.
pub(crate) async fn order(url: &str, plan: Plan) -> anyhow::Result<Vec<Figure>> {
    let shapes = [
        Shape::Unordered,
        Shape::Keys(10_000),
        Shape::Keys(100),
        Shape::HalfBlocked,
        Shape::OneKey,
    ];
    let pool = PgPool::connect(url).await?;
    let mut drains = shapes.map(|_| Rates::default());
    let mut fills = shapes.map(|_| Rates::default());
    for _ in 0..plan.rounds {
        for (place, shape) in shapes.iter().enumerate() {
            let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
            fresh(&pool, &store).await?;
            fills[place].add(plan.messages, fill(&store, plan, *shape).await?);
            let (messages, took) = drain(&store, plan, *shape).await?;
            drains[place].add(messages, took);
        }
    }
    let figure = |place: usize| Figure {
        id: "P7",
        what: format!("PostgreSQL, dispatcher, {}", name(shapes[place])),
        publish: fills[place].median(),
        postroom: drains[place].median(),
        control: drains[0].median(),
        ratio: ratio(&drains[place], &drains[0]),
        spread: drains[place].spread(),
        wal_publish: None,
        wal_drain: None,
    };
    Ok((0..shapes.len()).map(figure).collect())
}

fn name(shape: Shape) -> String {
    match shape {
        Shape::Unordered => "unordered (the control of those below)".to_owned(),
        Shape::Keys(keys) => format!("ordered, {keys} keys"),
        Shape::HalfBlocked => "ordered, half behind a blocked key".to_owned(),
        Shape::OneKey => "ordered, one key, sink takes runs".to_owned(),
    }
}

async fn fill(store: &Arc<PgStore>, plan: Plan, shape: Shape) -> anyhow::Result<Duration> {
    let outbox = Outbox::new(Arc::clone(store));
    let payload = bytes_of(plan.payload);
    let began = Instant::now();
    for start in (0..plan.messages).step_by(10_000) {
        let chunk = start..plan.messages.min(start + 10_000);
        outbox.publish_all(chunk.map(|n| message(shape, n, &payload))).await?;
    }
    Ok(began.elapsed())
}

fn message(shape: Shape, n: usize, payload: &[u8]) -> MessageBuilder {
    let builder = Message::builder("order.placed").payload(payload.to_vec());
    match shape {
        Shape::Unordered => builder,
        Shape::Keys(keys) => builder.ordering_key((n % keys).to_string()),
        Shape::HalfBlocked if n.is_multiple_of(2) => builder.ordering_key(BLOCKED),
        Shape::HalfBlocked => builder.ordering_key((n / 2 % 10_000).to_string()),
        Shape::OneKey => builder.ordering_key("one"),
    }
}

/// How many were to be handled, and how long that took until all of it was settled.
async fn drain(
    store: &Arc<PgStore>,
    plan: Plan,
    shape: Shape,
) -> anyhow::Result<(usize, Duration)> {
    let done: Arc<AtomicUsize> = Arc::default();
    let takes_runs = matches!(shape, Shape::OneKey);
    let sink = Counting { done: Arc::clone(&done), takes_runs };
    let half = matches!(shape, Shape::HalfBlocked);
    let messages = if half { plan.messages / 2 } else { plan.messages };
    let began = Instant::now();
    let running = Dispatcher::new(Arc::clone(store) as _, sink).config(config(plan)).start()?;
    wait_for(&done, messages).await?;
    running.shutdown(Duration::from_secs(30)).await;
    Ok((messages, began.elapsed()))
}

async fn wait_for(done: &AtomicUsize, messages: usize) -> anyhow::Result<()> {
    let patience = Instant::now() + Duration::from_secs(300);
    while done.load(Ordering::Relaxed) < messages {
        anyhow::ensure!(Instant::now() < patience, "{done:?} of {messages} after five minutes");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

const PRODUCERS: usize = 16;

/// Business row and message in one transaction, delivered and settled, next to the same without
/// anybody who delivers.
pub(crate) async fn hot(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    let messages = plan.messages / 5 / PRODUCERS * PRODUCERS;
    let (mut ours, mut alone) = (Rates::default(), Rates::default());
    for _ in 0..plan.rounds {
        for dispatch in [true, false] {
            let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
            fresh(&pool, &store).await?;
            let sql = "drop table if exists bench_business; \
                create table bench_business (id bigint generated always as identity, n bigint)";
            pool.execute(sqlx::raw_sql(sql)).await?;
            let done: Arc<AtomicUsize> = Arc::default();
            let began = Instant::now();
            let running = if dispatch { Some(start(&store, plan, &done)?) } else { None };
            produce(&store, plan, messages).await?;
            if let Some(running) = running {
                wait_for(&done, messages).await?;
                running.shutdown(Duration::from_secs(30)).await;
            }
            let rates = if dispatch { &mut ours } else { &mut alone };
            rates.add(messages, began.elapsed());
        }
    }
    Ok(Figure {
        id: "P2",
        what: format!("PostgreSQL, hot path, {PRODUCERS} producers; control: nobody delivers"),
        publish: alone.median(),
        postroom: ours.median(),
        control: alone.median(),
        ratio: ratio(&ours, &alone),
        spread: ours.spread(),
        wal_publish: None,
        wal_drain: None,
    })
}

fn start(store: &Arc<PgStore>, plan: Plan, done: &Arc<AtomicUsize>) -> anyhow::Result<Running> {
    let sink = Counting { done: Arc::clone(done), takes_runs: false };
    Ok(Dispatcher::new(Arc::clone(store) as _, sink).config(config(plan)).start()?)
}

async fn produce(store: &Arc<PgStore>, plan: Plan, messages: usize) -> anyhow::Result<()> {
    let producers = (0..PRODUCERS).map(|_| {
        let outbox = Outbox::new(Arc::clone(store));
        let payload = bytes_of(plan.payload);
        tokio::spawn(async move {
            for n in 0..messages / PRODUCERS {
                let mut tx = outbox.begin().await?;
                let insert = sqlx::query("insert into bench_business (n) values ($1)");
                insert.bind(i64::try_from(n)?).execute(tx.conn()).await?;
                tx.publish(Message::builder("order.placed").payload(payload.clone()))?;
                tx.commit().await?;
            }
            anyhow::Ok(())
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await??;
    }
    Ok(())
}

/// When each message was committed, as its publisher saw it, and when its handler began.
#[derive(Default)]
struct Times {
    committed: Mutex<HashMap<MessageId, Instant>>,
    begun: Mutex<HashMap<MessageId, Instant>>,
}

struct Timing(Arc<Times>);

impl Sink for Timing {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        let now = Instant::now();
        let mut begun = self.0.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        begun.extend(batch.iter().map(|delivery| (delivery.message().id(), now)));
        drop(begun);
        Box::pin(async move { vec![Outcome::Done; batch.len()] })
    }
}

/// How a message gets from a commit to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Hot,
    Ordered,
    /// By a notification to another store handle, with pools of its own, in this process: as far as
    /// the database and Postroom can tell, that is another process.
    Wake {
        per_second: u64,
    },
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [
        Self::Hot,
        Self::Ordered,
        Self::Wake { per_second: 1_000 },
        Self::Wake { per_second: 100 },
    ];

    fn per_second(self) -> u64 {
        match self {
            Self::Wake { per_second } => per_second,
            Self::Hot | Self::Ordered => 1_000,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Hot => "commit to handler, same process, hot".to_owned(),
            Self::Ordered => "commit to handler, same process, ordered".to_owned(),
            Self::Wake { per_second } => {
                format!("commit to handler, separate store handle woken by NOTIFY, {per_second}/s")
            }
        }
    }
}

/// From the return of COMMIT to the start of the handler, at a steady rate.
pub(crate) async fn latency(url: &str, plan: Plan, way: Way) -> anyhow::Result<Latency> {
    let pool = PgPool::connect(url).await?;
    let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    fresh(&pool, &store).await?;
    let times: Arc<Times> = Arc::default();
    let sink = Timing(Arc::clone(&times));
    let running = Dispatcher::new(Arc::clone(&store) as _, sink).config(config(plan)).start()?;
    let mut outbox = Outbox::new(Arc::clone(&store));
    if let Way::Wake { .. } = way {
        while store.wakes() != Wakes::Listening {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        outbox = Outbox::new(Arc::new(PgStore::connect(url, StoreConfig::default()).await?));
    }
    publish_steadily(&outbox, plan, way, &times).await?;
    running.shutdown(Duration::from_secs(10)).await;
    Ok(Latency::new("P3", way.name(), &waits(&times)))
}

/// Five seconds at most, at a rate that does not depend on how long each takes.
async fn publish_steadily(
    outbox: &Outbox<PgStore>,
    plan: Plan,
    way: Way,
    times: &Arc<Times>,
) -> anyhow::Result<()> {
    let per_second = way.per_second();
    let messages = (plan.messages / 20).min(5 * usize::try_from(per_second)?);
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / per_second));
    let mut publishers = tokio::task::JoinSet::new();
    for n in 0..messages {
        ticks.tick().await;
        let (outbox, times) = (outbox.clone(), Arc::clone(times));
        let mut message = Message::builder("order.placed").payload(bytes_of(plan.payload));
        if way == Way::Ordered {
            message = message.ordering_key(n.to_string());
        }
        publishers.spawn(async move {
            let published = outbox.publish(message).await?;
            let now = Instant::now();
            let mut committed =
                times.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            committed.insert(published.id, now);
            anyhow::Ok(())
        });
    }
    while let Some(publisher) = publishers.join_next().await {
        publisher??;
    }
    Ok(())
}

fn waits(times: &Times) -> Vec<Duration> {
    let begun = times.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let committed = times.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let wait = |(id, at): (&MessageId, &Instant)| {
        begun.get(id).map(|begun| begun.saturating_duration_since(*at))
    };
    committed.iter().filter_map(wait).collect()
}
