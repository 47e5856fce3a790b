//! P10: the memory of a process that does nothing but run a dispatcher, while it is idle and while
//! it drains a large backlog.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use postroom_core::store::{AdminStore as _, Pause};
use postroom_stores::{PgStore, StoreConfig};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

use crate::bulk;
use crate::dispatch::{self, Counting};
use crate::plan::Plan;
use crate::postgres::fresh;
use crate::progress::say;
use crate::report::numbers::{digits, median};
use crate::report::{Case, Figure, Line, Panel, Role, Series, Unit};

const EVERY: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(900);

/// What the process is told.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    url: String,
    plan: Plan,
}

/// The process: says how much it has delivered until it is killed.
pub(crate) async fn run_node(task: &str) -> anyhow::Result<()> {
    let task: Task = serde_json::from_str(task).context("a task")?;
    let store = Arc::new(PgStore::connect(&task.url, StoreConfig::default()).await?);
    let sink = Counting::default();
    let running = sink.start(store, task.plan)?;
    let mut out = std::io::stdout();
    // Until nobody listens.
    while writeln!(out, "{}", sink.done.load(Ordering::Relaxed)).is_ok() {
        tokio::time::sleep(EVERY).await;
    }
    running.shutdown(dispatch::GRACE).await;
    Ok(())
}

/// The process as its parent sees it. It ends with this.
struct Node {
    child: Child,
    done: Arc<AtomicUsize>,
}

impl Node {
    fn start(url: &str, plan: Plan) -> anyhow::Result<Self> {
        let task = serde_json::to_string(&Task { url: url.to_owned(), plan })?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--memory-node", &task])
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let done = Arc::<AtomicUsize>::default();
        let told = Arc::clone(&done);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                told.store(line.parse().unwrap_or(0), Ordering::Relaxed);
            }
        });
        Ok(Self { child, done })
    }

    fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Resident memory in MiB.
    fn memory(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status =
            std::fs::read_to_string(&path).context("P10 needs Linux and a live process")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.with_context(|| format!("no memory in {path}"))? / 1024.0)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) async fn measure(url: &str, plan: Plan, backlog: u64) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    let store = PgStore::connect(url, StoreConfig::default()).await?;
    fresh(&pool, &store).await?;
    // The backlog is there before the first of it is delivered.
    store.pause(&Pause::default()).await?;
    let node = Node::start(url, plan)?;
    say("P10", "looks at an idle dispatcher");
    let idle = median(&sample(&node, |_, began| began.elapsed() >= IDLE).await?.values());
    bulk::backlog(&mut *pool.acquire().await?, "P10", backlog, plan.payload).await?;
    bulk::settle_down(&mut *pool.acquire().await?).await?;
    say("P10", "looks at a dispatcher that drains");
    store.resume(None).await?;
    let all = usize::try_from(backlog)?;
    let seen = sample(&node, |node, _| node.done() >= all).await?;
    anyhow::ensure!(node.done() >= all, "{} of {all} after {PATIENCE:?}", node.done());
    drop(node);
    store.close().await;
    Ok(figure(plan, backlog, idle, &seen))
}

/// Memory over time.
#[derive(Default)]
struct Samples(Vec<(f64, f64)>);

impl Samples {
    fn values(&self) -> Vec<f64> {
        self.0.iter().map(|(_, memory)| *memory).collect()
    }
}

async fn sample(node: &Node, is_over: impl Fn(&Node, Instant) -> bool) -> anyhow::Result<Samples> {
    let began = Instant::now();
    let mut samples = Samples::default();
    while !is_over(node, began) && began.elapsed() < PATIENCE {
        samples.0.push((began.elapsed().as_secs_f64(), node.memory()?));
        tokio::time::sleep(EVERY).await;
    }
    Ok(samples)
}

fn figure(plan: Plan, backlog: u64, idle: f64, seen: &Samples) -> Figure {
    let values = seen.values();
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let third = values.len() / 3;
    let (first, last) = (most(&values[..third.max(1)]), most(&values[2 * third..]));
    let above = (most(&values) - idle).max(0.0);
    let grown = (last - first).max(0.0);
    let end = seen.0.last().map_or(0.0, |(at, _)| *at);
    let line = |name: &str, role, points| Line { name: name.to_owned(), role, points };
    let panel = Panel {
        title: "resident memory of the process".to_owned(),
        x: "seconds".to_owned(),
        logarithmic: false,
        unit: Unit::Mebibytes,
        lines: vec![
            line("while it drains", Role::Ours, seen.0.clone()),
            line("while it is idle", Role::Control, vec![(0.0, idle), (end, idle)]),
        ],
    };
    Figure::new("P10", "Memory of a dispatcher that drains a large backlog")
        .note(format!("{} messages of {} B", digits(backlog as f64), plan.payload))
        .note(dispatch::settings(plan))
        .case(Case::single("idle", Unit::Mebibytes, idle))
        .case(Case::single("at most above idle", Unit::Mebibytes, above).bar(Series::OURS, 64.0))
        .case(
            Case::single("last third above first third", Unit::Mebibytes, grown)
                .bar(Series::OURS, 4.0),
        )
        .panel(panel)
}
