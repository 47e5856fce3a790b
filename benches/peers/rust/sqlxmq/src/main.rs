//! sqlxmq, in a schema of its own.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Instant;

use peer::{Arguments, Counter, Job, Times};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor as _, PgPool};
use sqlxmq::{JobBuilder, JobRunnerHandle, JobRunnerOptions};

const CONNECTIONS: u32 = 25;

/// It polls when fewer than the first number run, up to the second. Tried as well, and slower: its
/// default of 16 to 32, and 100 to 400.
const CONCURRENCY: (usize, usize) = (500, 2_000);

/// The arguments of a job as its own `spawn` gives them, for many jobs in one statement.
const FILL: &str = "select mq_insert(array(
    select (gen_random_uuid(), '0 s'::interval, 4, '1 s'::interval, '', '', null::interval, false,
        'drain', $1, null::bytea)::mq_new_t
    from generate_series(1, $2)))";

/// One row is always there, with an identifier of zeros.
const LEFT: &str = "select count(*) - 1 from mq_msgs";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    let pool = PgPoolOptions::new().max_connections(1).connect(&arguments.url).await?;
    pool.execute("drop schema if exists sqlxmq cascade").await?;
    pool.execute("create schema sqlxmq").await?;
    let pool = connect(&arguments.url).await?;
    Migrator::new(Path::new(env!("SQLXMQ_MIGRATIONS"))).await?.run(&pool).await?;
    match arguments.job {
        Job::Drain => drain(&arguments, &pool).await?,
        Job::Latency => latency(&arguments, &pool).await?,
    }
    std::process::exit(0)
}

async fn connect(url: &str) -> anyhow::Result<PgPool> {
    let options = PgConnectOptions::from_str(url)?.options([("search_path", "sqlxmq,public")]);
    let pool = PgPoolOptions::new().min_connections(CONNECTIONS).max_connections(CONNECTIONS);
    Ok(pool.connect_with(options).await?)
}

async fn drain(arguments: &Arguments, pool: &PgPool) -> anyhow::Result<()> {
    let json = format!("\"{}\"", arguments.text());
    for size in arguments.chunks() {
        sqlx::query(FILL).bind(&json).bind(size as i32).execute(pool).await?;
    }
    pool.execute("vacuum analyze").await?;
    pool.execute("checkpoint").await?;
    let counter = Counter::default();
    let began = Instant::now();
    let _runner = start(pool, &counter, &Times::default()).await?;
    let left = async || Ok(sqlx::query_scalar(LEFT).fetch_one(pool).await?);
    let drained = peer::drained(arguments, began, &counter, left).await?;
    peer::report_drain(arguments, version(), &settings(), drained);
    Ok(())
}

async fn latency(arguments: &Arguments, pool: &PgPool) -> anyhow::Result<()> {
    let times = Times::default();
    let _runner = start(pool, &Counter::default(), &times).await?;
    let outside = connect(&arguments.url).await?;
    let publish = |text: String| {
        let pool = outside.clone();
        async move {
            JobBuilder::new("latency").set_json(&text)?.spawn(&pool).await?;
            Ok(())
        }
    };
    peer::publish_steadily(arguments, &times, publish).await?;
    peer::report_latency(arguments, version(), &settings(), &times);
    Ok(())
}

/// A no-op needs nothing that keeps it alive.
async fn start(pool: &PgPool, counter: &Counter, times: &Times) -> anyhow::Result<JobRunnerHandle> {
    let (counter, times) = (counter.clone(), times.clone());
    let mut options = JobRunnerOptions::new(pool, move |mut job| {
        let text = job.json::<String>().ok().flatten().unwrap_or_default();
        if let Some(number) = peer::number_of(&text) {
            times.begun(number);
        }
        let counter = counter.clone();
        tokio::spawn(async move {
            if job.complete().await.is_ok() {
                counter.add();
            }
        });
    });
    options.set_concurrency(CONCURRENCY.0, CONCURRENCY.1).set_keep_alive(false);
    Ok(options.run().await?)
}

fn settings() -> String {
    let (min, max) = CONCURRENCY;
    format!("concurrency {min} to {max}, no keep-alive, {CONNECTIONS} connections")
}

fn version() -> &'static str {
    peer::version(include_str!("../Cargo.lock"), "sqlxmq")
}
