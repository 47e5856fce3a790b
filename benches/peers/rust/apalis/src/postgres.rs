//! The PostgreSQL storage.

use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage, queries};
use peer::{Arguments, Job};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor as _, PgPool};

use crate::{QUEUE, Seen, json};

const LEFT: &str = "select count(*) from apalis.jobs where status <> 'Done'";
const CONNECTIONS: u32 = 25;

/// A worker that missed a wake sleeps until its next heartbeat, so that is short, and the time
/// after which others take over its tasks is not.
const MISSED_HEARTBEATS: usize = 600;

#[derive(Clone, Copy, Debug)]
struct Settings {
    workers: usize,
    batch: usize,
    poll: Duration,
    heartbeat: Duration,
}

/// Tried as well: 1, 2 and 4 workers with batches of 100, 500 and 2,000.
const DRAIN: Settings = Settings {
    workers: 2,
    batch: 2_000,
    poll: Duration::from_millis(5),
    heartbeat: Duration::from_secs(1),
};

/// Tried as well: 4 workers, a batch of 50, a poll every 5 ms, no notifications, and a heartbeat
/// every second and every 30 seconds, with which messages could wait for as long as that.
const LATENCY: Settings = Settings {
    workers: 1,
    batch: 100,
    poll: Duration::from_millis(1),
    heartbeat: Duration::from_millis(100),
};

impl Settings {
    fn describe(self) -> String {
        format!(
            "{} worker(s), batch {}, no lock before the handler, notifications and poll {:?}, \
             heartbeat {:?}, {CONNECTIONS} connections",
            self.workers, self.batch, self.poll, self.heartbeat
        )
    }

    /// A claim locks a task already. Locking it once more before its handler can be left out.
    fn start(self, pool: &PgPool, seen: &Seen) {
        for number in 0..self.workers {
            let config = Config::default()
                .queue(QUEUE)
                .batch_size(self.batch)
                .lock_tasks(false)
                .heartbeat_interval(self.heartbeat)
                .missed_heartbeats(MISSED_HEARTBEATS);
            let backend = PostgresStorage::<String>::new(pool)
                .with_config(config)
                .with_pubsub()
                .poll_with_interval(self.poll);
            let worker = WorkerBuilder::new(format!("worker-{number}"))
                .backend(backend)
                .data(seen.clone())
                .build(handle);
            tokio::spawn(async move { worker.run().await });
        }
    }
}

async fn handle(text: String, seen: Data<Seen>) -> Result<(), BoxDynError> {
    match peer::number_of(&text) {
        Some(number) => seen.times.begun(number),
        None => seen.counter.add(),
    }
    Ok(())
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let pool = connect(&arguments.url).await?;
    pool.execute("drop schema if exists apalis cascade").await?;
    pool.execute("drop table if exists _sqlx_migrations").await?;
    PostgresStorage::setup(&pool).await?;
    match arguments.job {
        Job::Drain => drain(arguments, &pool).await,
        Job::Latency => latency(arguments, &pool).await,
    }
}

async fn connect(url: &str) -> anyhow::Result<PgPool> {
    let pool = PgPoolOptions::new().min_connections(CONNECTIONS).max_connections(CONNECTIONS);
    Ok(pool.connect(url).await?)
}

async fn drain(arguments: &Arguments, pool: &PgPool) -> anyhow::Result<()> {
    let mut conn = pool.acquire().await?;
    for size in arguments.chunks() {
        let task = || TaskBuilder::new(json(&arguments.text())).build();
        queries::push_tasks(&mut *conn, QUEUE, (0..size).map(|_| task()).collect()).await?;
    }
    drop(conn);
    // A task may run from the second after that of its insertion.
    tokio::time::sleep(Duration::from_secs(1)).await;
    pool.execute("vacuum analyze").await?;
    pool.execute("checkpoint").await?;
    let seen = Seen::default();
    let began = Instant::now();
    DRAIN.start(pool, &seen);
    let left = async || Ok(sqlx::query_scalar(LEFT).fetch_one(pool).await?);
    let drained = peer::drained(arguments, began, &seen.counter, left).await?;
    peer::report_drain(arguments, version(), &DRAIN.describe(), drained);
    Ok(())
}

async fn latency(arguments: &Arguments, pool: &PgPool) -> anyhow::Result<()> {
    let seen = Seen::default();
    LATENCY.start(pool, &seen);
    let outside = connect(&arguments.url).await?;
    let publish = |text: String| {
        let pool = outside.clone();
        async move {
            let task = TaskBuilder::new(json(&text)).build();
            let mut conn = pool.acquire().await?;
            Ok(queries::push_tasks(&mut *conn, QUEUE, vec![task]).await?)
        }
    };
    peer::publish_steadily(arguments, &seen.times, publish).await?;
    peer::report_latency(arguments, version(), &LATENCY.describe(), &seen.times);
    Ok(())
}

fn version() -> &'static str {
    peer::version(include_str!("../Cargo.lock"), "apalis-postgres")
}
