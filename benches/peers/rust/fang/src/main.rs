//! fang, on SQLite.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use fang::asynk::async_queue::{AsyncQueue, AsyncQueueable};
use fang::asynk::async_worker_pool::AsyncWorkerPool;
use fang::serde::{Deserialize, Serialize};
use fang::{AsyncRunnable, FangError, RetentionMode, SleepParams, async_trait, typetag};
use peer::{Arguments, Counter, Job};

const WORKERS: u32 = 1;

/// The columns that its own insertion sets, for many tasks in one statement.
const FILL: &str = "with recursive n (n) as (select 1 union all select n + 1 from n where n < ?1)
    insert into fang_tasks (id, metadata, task_type) select randomblob(16), ?2, 'common' from n";

/// Handlers are plain data and know nobody.
static COUNTER: OnceLock<Counter> = OnceLock::new();

#[derive(Deserialize, Serialize)]
#[serde(crate = "fang::serde")]
struct OrderPlaced {
    text: String,
}

#[typetag::serde]
#[async_trait]
impl AsyncRunnable for OrderPlaced {
    async fn run(&self, _: &dyn AsyncQueueable) -> Result<(), FangError> {
        if let Some(counter) = COUNTER.get() {
            counter.add();
        }
        Ok(())
    }
}

#[derive(QueryableByName)]
struct Left {
    #[diesel(sql_type = BigInt)]
    left: i64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    anyhow::ensure!(arguments.job == Job::Drain, "only a drain is measured");
    let file = arguments.url.strip_prefix("sqlite://").context("not the URL of a file")?;
    let mut outside = SqliteConnection::establish(file)?;
    outside.batch_execute("pragma journal_mode = wal; pragma busy_timeout = 60000")?;
    fang::run_migrations_sqlite(&mut outside).map_err(|error| anyhow::anyhow!("{error}"))?;
    fill(&mut outside, &arguments)?;
    let counter = COUNTER.get_or_init(Counter::default);
    let began = Instant::now();
    start(&arguments.url).await?;
    let outside = std::cell::RefCell::new(outside);
    let left = async || {
        let sql = diesel::sql_query("select count(*) as left from fang_tasks");
        Ok(sql.get_result::<Left>(&mut *outside.borrow_mut())?.left)
    };
    let drained = peer::drained(&arguments, began, counter, left).await?;
    let version = peer::version(include_str!("../Cargo.lock"), "fang");
    let settings = format!(
        "{WORKERS} worker(s), removes what is done, WAL, synchronous full (it cannot be told \
         another)"
    );
    peer::report_drain(&arguments, version, &settings, drained);
    std::process::exit(0)
}

fn fill(connection: &mut SqliteConnection, arguments: &Arguments) -> anyhow::Result<()> {
    let task: Box<dyn AsyncRunnable> = Box::new(OrderPlaced { text: arguments.text() });
    diesel::sql_query(FILL)
        .bind::<BigInt, _>(i64::try_from(arguments.messages)?)
        .bind::<Text, _>(serde_json::to_string(&task)?)
        .execute(connection)?;
    connection.batch_execute("analyze; pragma wal_checkpoint(truncate)")?;
    Ok(())
}

async fn start(url: &str) -> anyhow::Result<()> {
    let mut queue = AsyncQueue::builder().uri(url).max_pool_size(WORKERS).build();
    queue.connect().await?;
    let sleep = SleepParams { sleep_period: Duration::from_millis(5), ..SleepParams::default() };
    AsyncWorkerPool::<AsyncQueue>::builder()
        .number_of_workers(WORKERS)
        .queue(queue)
        .retention_mode(RetentionMode::RemoveAll)
        .sleep_params(sleep)
        .build()
        .start()
        .await;
    Ok(())
}
