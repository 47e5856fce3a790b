//! effectum, which works on SQLite only.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use effectum::{Error, Job, JobRunner, Queue, RunningJob, Worker};
use peer::{Arguments, Counter};
use rusqlite::Connection;

const TYPE: &str = "order.placed";
/// What is done leaves this table.
const LEFT: &str = "select count(*) from active_jobs";

/// It fetches when fewer than the first number run, up to the second. Tried as well: 40 to 50, 100
/// to 200, 10 to 5,000.
const MIN: u16 = 500;
const MAX: u16 = 1_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    anyhow::ensure!(arguments.job == peer::Job::Drain, "only a drain is measured");
    let file = arguments.url.strip_prefix("sqlite://").context("not the URL of a file")?;
    let outside = Connection::open(file)?;
    // It asks for a write-ahead log too, but by a wrong name. The file remembers this.
    outside.query_row("pragma journal_mode = wal", [], |_| Ok(()))?;
    let queue = Queue::new(Path::new(file)).await?;
    fill(&queue, &arguments).await?;
    let counter = Counter::default();
    let began = Instant::now();
    let _worker = Worker::builder(&queue, counter.clone())
        .jobs([JobRunner::builder(TYPE, handle).build()])
        .min_concurrency(MIN)
        .max_concurrency(MAX)
        .build()
        .await?;
    let left = async || Ok(outside.query_row(LEFT, [], |row| row.get(0))?);
    let drained = peer::drained(&arguments, began, &counter, left).await?;
    let version = peer::version(include_str!("../Cargo.lock"), "effectum");
    let settings = format!("concurrency {MIN} to {MAX}, WAL, synchronous normal");
    peer::report_drain(&arguments, version, &settings, drained);
    std::process::exit(0)
}

async fn fill(queue: &Queue, arguments: &Arguments) -> anyhow::Result<()> {
    let text = arguments.text();
    let job = || anyhow::Ok(Job::builder(TYPE).json_payload(&text)?.build());
    for size in arguments.chunks() {
        queue.add_jobs((0..size).map(|_| job()).collect::<Result<_, _>>()?).await?;
    }
    Ok(())
}

async fn handle(_: RunningJob, counter: Counter) -> Result<(), Error> {
    counter.add();
    Ok(())
}
