//! graphile_worker (the one in Rust), with a local queue and batched completion.

use std::sync::Arc;
use std::time::{Duration, Instant};

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext,
    WorkerOptions, WorkerUtils,
};
use peer::{Arguments, Counter, Job, Times};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor as _, PgPool};

const SCHEMA: &str = "graphile_worker";
const LEFT: &str = "select count(*) from graphile_worker._private_jobs";
const CONNECTIONS: u32 = 25;

#[derive(Clone, Copy, Debug)]
struct Settings {
    concurrency: usize,
    local_queue: usize,
    poll: Duration,
    batch_delay: Duration,
}

/// Those of its own benchmark of a drain, `benches/perf_test.rs`. Tried as well, and not faster:
/// concurrency 24 and 100, a local queue of 500 and of 2,000, four local queues of 1,250, delays
/// of 0 and 1 ms, its driver tokio-postgres.
const DRAIN: Settings = Settings {
    concurrency: 500,
    local_queue: 5_000,
    poll: Duration::from_millis(5),
    batch_delay: Duration::from_millis(5),
};

/// Those that graphile-worker documents, whose twin it is. Without a local queue half of the
/// messages waited 0.4 ms instead of 0.8 ms on an idle machine, but on a busy one it fell behind.
/// Tried as well: local queues of 50 and 100, concurrency 4 and 8, delays of 1 and 5 ms.
const LATENCY: Settings = Settings {
    concurrency: 24,
    local_queue: 500,
    poll: Duration::from_secs(1),
    batch_delay: Duration::ZERO,
};

impl Settings {
    fn describe(self) -> String {
        format!(
            "concurrency {}, local queue {}, poll {:?}, completion batched for {:?}, \
             {CONNECTIONS} connections",
            self.concurrency, self.local_queue, self.poll, self.batch_delay
        )
    }

    async fn start(self, pool: &PgPool, seen: &Seen) -> anyhow::Result<()> {
        let options = WorkerOptions::default()
            .pg_pool(pool.clone())
            .schema(SCHEMA)
            .concurrency(self.concurrency)
            .poll_interval(self.poll)
            .complete_job_batch_delay(self.batch_delay)
            .fail_job_batch_delay(self.batch_delay)
            .local_queue(LocalQueueConfig::default().with_size(self.local_queue))
            .add_extension(seen.clone())
            .define_job::<Drain>()
            .define_job::<Latency>();
        let worker = Arc::new(options.init().await?);
        tokio::spawn(async move { worker.run().await });
        Ok(())
    }
}

/// What a handler tells: that it ran, or when.
#[derive(Clone, Debug, Default)]
struct Seen {
    counter: Counter,
    times: Times,
}

#[derive(Deserialize, Serialize)]
#[serde(transparent)]
struct Drain(String);

impl TaskHandler for Drain {
    const IDENTIFIER: &'static str = "drain";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(seen) = context.get_ext::<Seen>() {
            seen.counter.add();
        }
        Ok::<(), String>(())
    }
}

#[derive(Deserialize, Serialize)]
#[serde(transparent)]
struct Latency(String);

impl TaskHandler for Latency {
    const IDENTIFIER: &'static str = "latency";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let (Some(seen), Some(n)) = (context.get_ext::<Seen>(), peer::number_of(&self.0)) {
            seen.times.begun(n);
        }
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    let pool = connect(&arguments.url).await?;
    pool.execute("drop schema if exists graphile_worker cascade").await?;
    let utils = WorkerUtils::new(pool.clone(), SCHEMA);
    utils.migrate().await?;
    match arguments.job {
        Job::Drain => drain(&arguments, &pool, &utils).await?,
        Job::Latency => latency(&arguments, &pool).await?,
    }
    std::process::exit(0)
}

async fn connect(url: &str) -> anyhow::Result<PgPool> {
    let pool = PgPoolOptions::new().min_connections(CONNECTIONS).max_connections(CONNECTIONS);
    Ok(pool.connect(url).await?)
}

async fn drain(arguments: &Arguments, pool: &PgPool, utils: &WorkerUtils) -> anyhow::Result<()> {
    let spec = || RawJobSpec {
        identifier: Drain::IDENTIFIER.to_owned(),
        payload: arguments.text().into(),
        spec: JobSpec::default(),
    };
    for size in arguments.chunks() {
        utils.add_raw_jobs(&(0..size).map(|_| spec()).collect::<Vec<_>>()).await?;
    }
    pool.execute("vacuum analyze").await?;
    pool.execute("checkpoint").await?;
    let seen = Seen::default();
    let began = Instant::now();
    DRAIN.start(pool, &seen).await?;
    let left = async || Ok(sqlx::query_scalar(LEFT).fetch_one(pool).await?);
    let drained = peer::drained(arguments, began, &seen.counter, left).await?;
    peer::report_drain(arguments, version(), &DRAIN.describe(), drained);
    Ok(())
}

async fn latency(arguments: &Arguments, pool: &PgPool) -> anyhow::Result<()> {
    let utils = WorkerUtils::new(connect(&arguments.url).await?, SCHEMA);
    let seen = Seen::default();
    LATENCY.start(pool, &seen).await?;
    let publish = |text: String| {
        let utils = utils.clone();
        async move {
            utils.add_job(Latency(text), JobSpec::default()).await?;
            Ok(())
        }
    };
    peer::publish_steadily(arguments, &seen.times, publish).await?;
    peer::report_latency(arguments, version(), &LATENCY.describe(), &seen.times);
    Ok(())
}

fn version() -> &'static str {
    peer::version(include_str!("../Cargo.lock"), "graphile_worker")
}
