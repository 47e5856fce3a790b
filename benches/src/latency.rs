//! P3: from the return of COMMIT to the start of the handler, at a steady rate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postroom_core::lifecycle::Outcome;
use postroom_core::store::{BoxFuture, Store, Wakes};
use postroom_core::{Delivery, Dispatcher, Message, MessageId, Outbox, Sink};
use postroom_stores::{PgStore, StoreConfig};
use sqlx::PgPool;

use crate::contest::{self, Contestant};
use crate::dispatch::{self, GRACE};
use crate::fill::bytes_of;
use crate::lock;
use crate::plan::Plan;
use crate::postgres::fresh;
use crate::report::numbers::{digits, percentile, seconds};
use crate::report::{Case, Figure, Series, Unit};

/// How long messages are published, in seconds: five, of small plans less.
fn length(plan: Plan) -> usize {
    (plan.messages / 10_000).clamp(1, 5)
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
        let ids = batch.iter().map(|delivery| (delivery.message().id(), now));
        lock(&self.0.begun).extend(ids);
        Box::pin(async move { vec![Outcome::Done; batch.len()] })
    }
}

/// How a message gets from a commit to a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Hot,
    Ordered,
    /// By a notification to another store handle, with pools of its own, in this process: as far as
    /// the database and Postroom can tell, that is another process.
    Wake,
}

/// With the rate, and the bars for p50 and p99 in seconds.
const WAYS: [(Way, u64, Option<f64>, Option<f64>); 4] = [
    (Way::Hot, 1_000, Some(0.0001), Some(0.002)),
    (Way::Ordered, 1_000, Some(0.0015), None),
    (Way::Wake, 1_000, Some(0.002), None),
    (Way::Wake, 100, None, None),
];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Hot => "same process, hot",
            Self::Ordered => "same process, ordered",
            Self::Wake => "another store handle, woken by NOTIFY",
        }
    }
}

/// Peers, with a p50 and a p99 each, are measured in the same rounds and stand next to another
/// store handle: each of them claims what was committed elsewhere.
pub(crate) async fn measure<'a>(
    url: &'a str,
    plan: Plan,
    peers: Vec<Contestant<'a>>,
) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    let ours = WAYS.map(|(way, per_second, ..)| {
        let series = ["p50", "p99"].map(|which| Series::ours().which(which));
        let pool = pool.clone();
        Contestant::new(series, move || {
            let pool = pool.clone();
            async move {
                let waits = seconds(&waits_of(url, &pool, plan, way, per_second).await?);
                Ok(vec![percentile(&waits, 50), percentile(&waits, 99)])
            }
        })
    });
    let contestants = ours.into_iter().chain(peers).collect();
    let series = contest::hold("P3", "commit to handler", plan.rounds, contestants).await?;
    let (ours, peers) = series.split_at(2 * WAYS.len());
    let seconds = length(plan);
    let figure = Figure::new("P3", "PostgreSQL: from the return of COMMIT to the handler")
        .note(format!("messages of {} B, {seconds} s, {} rounds", plan.payload, plan.rounds))
        .note(dispatch::settings(plan));
    let cases = WAYS.iter().zip(ours.chunks(2)).map(|((way, per_second, p50, p99), both)| {
        let what = format!("{}, {} msg/s", way.name(), digits(*per_second as f64));
        let peers = if *way == Way::Wake && *per_second == 1_000 { peers } else { &[] };
        let mut case = Case::new(what, Unit::Seconds, [both, peers].concat());
        for (name, bar) in [("Postroom, p50", p50), ("Postroom, p99", p99)] {
            if let Some(bar) = bar {
                case = case.bar(name, *bar);
            }
        }
        case
    });
    Ok(cases.fold(figure, Figure::case))
}

async fn waits_of(
    url: &str,
    pool: &PgPool,
    plan: Plan,
    way: Way,
    per_second: u64,
) -> anyhow::Result<Vec<Duration>> {
    let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    fresh(pool, &store).await?;
    let times: Arc<Times> = Arc::default();
    let sink = Timing(Arc::clone(&times));
    let config = dispatch::config(plan);
    let running = Dispatcher::new(Arc::clone(&store) as _, sink).config(config).start()?;
    let mut publisher = Arc::clone(&store);
    if way == Way::Wake {
        while store.wakes() != Wakes::Listening {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        publisher = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    }
    let outbox = Outbox::new(Arc::clone(&publisher));
    publish_steadily(&outbox, plan, way, per_second, &times).await?;
    running.shutdown(GRACE).await;
    publisher.close().await;
    store.close().await;
    Ok(waits(&times))
}

/// At a rate that does not depend on how long each takes.
async fn publish_steadily(
    outbox: &Outbox<PgStore>,
    plan: Plan,
    way: Way,
    per_second: u64,
    times: &Arc<Times>,
) -> anyhow::Result<()> {
    let messages = length(plan) * usize::try_from(per_second)?;
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
            lock(&times.committed).insert(published.id, now);
            anyhow::Ok(())
        });
    }
    while let Some(publisher) = publishers.join_next().await {
        publisher??;
    }
    Ok(())
}

fn waits(times: &Times) -> Vec<Duration> {
    let (begun, committed) = (lock(&times.begun), lock(&times.committed));
    let wait = |(id, at): (&MessageId, &Instant)| {
        begun.get(id).map(|begun| begun.saturating_duration_since(*at))
    };
    committed.iter().filter_map(wait).collect()
}
