//! The SQLite storage.

use std::str::FromStr as _;
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteStorage, queries};
use peer::{Arguments, Job};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::{QUEUE, Seen, json};

const LEFT: &str = "select count(*) from Jobs where status <> 'Done'";
const POLL: Duration = Duration::from_millis(5);
const BATCH: usize = 100;

/// A settlement looks at all tasks that its worker ever had, for each task that it settles, so
/// many workers are faster than one. With 100,000 messages one worker with a batch of 500 settled
/// 1,000 a second and less as time went on, 64 settled 4,800, 200 with a batch of 100 8,200, 400
/// of them 11,800. More connections and batches of 2,000 were slower.
const WORKERS: usize = 400;

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    anyhow::ensure!(arguments.job == Job::Drain, "only a drain is measured");
    let options = SqliteConnectOptions::from_str(&arguments.url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .pragma("temp_store", "memory")
        .pragma("cache_size", "64000");
    // Its own setup switches `synchronous` off, for one connection, which goes with this pool.
    let setup = open(&options).await?;
    SqliteStorage::setup(&setup).await?;
    setup.close().await;
    let (pool, outside) = (open(&options).await?, open(&options).await?);
    fill(&pool, arguments).await?;
    let seen = Seen::default();
    let began = Instant::now();
    for number in 0..WORKERS {
        start(&pool, number, &seen);
    }
    let left = async || Ok(sqlx::query_scalar(LEFT).fetch_one(&outside).await?);
    let drained = peer::drained(arguments, began, &seen.counter, left).await?;
    let version = peer::version(include_str!("../Cargo.lock"), "apalis-sqlite");
    let settings = format!(
        "{WORKERS} workers, batch {BATCH}, no lock before the handler, poll {POLL:?}, WAL, \
         synchronous normal"
    );
    peer::report_drain(arguments, version, &settings, drained);
    Ok(())
}

/// One connection: more than one writer would wait for each other.
async fn open(options: &SqliteConnectOptions) -> anyhow::Result<SqlitePool> {
    let pool = SqlitePoolOptions::new().max_connections(1).acquire_timeout(Duration::from_mins(5));
    Ok(pool.connect_with(options.clone()).await?)
}

async fn fill(pool: &SqlitePool, arguments: &Arguments) -> anyhow::Result<()> {
    let task = || TaskBuilder::new(json(&arguments.text())).build();
    let tasks: Vec<_> = (0..arguments.messages).map(|_| task()).collect();
    let mut tx = pool.begin().await?;
    queries::push_tasks(&mut *tx, QUEUE, &tasks).await?;
    tx.commit().await?;
    sqlx::raw_sql("analyze; pragma wal_checkpoint(truncate)").execute(pool).await?;
    Ok(())
}

/// A claim locks a task already. Locking it once more before its handler can be left out.
fn start(pool: &SqlitePool, number: usize, seen: &Seen) {
    let config = Config::default().queue(QUEUE).batch_size(BATCH).lock_tasks(false);
    let backend = SqliteStorage::<String>::new(pool).with_config(config).poll_with_interval(POLL);
    let worker = WorkerBuilder::new(format!("worker-{number}"))
        .backend(backend)
        .data(seen.clone())
        .build(handle);
    tokio::spawn(async move { worker.run().await });
}

async fn handle(_: String, seen: Data<Seen>) -> Result<(), BoxDynError> {
    seen.counter.add();
    Ok(())
}
