//! `cargo xtask bench`: Postroom next to the same SQL through the bare driver, in one run.
//!
//! Each figure is a module that measures and answers with a [`report::Figure`]; what becomes of
//! that, on the screen, as JSON and as a picture, is the business of the report.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its figures, and says what it is doing"
)]

mod arguments;
mod bulk;
mod claims;
mod contest;
mod control;
mod curves;
mod dispatch;
mod drain;
mod fill;
mod fleet;
mod hot;
mod latency;
mod machine;
mod memory;
mod mysql;
mod neighbours;
mod order;
mod pages;
mod peers;
mod plan;
mod postgres;
mod progress;
mod report;
mod sqlite;
mod steady;
mod timed;
mod wal;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Parser as _;

use arguments::Arguments;
use contest::Contestant;
use machine::Setup;
use neighbours::Neighbours;
use peers::Database;
use plan::Plan;
use report::{Figure, json, lines, picture};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(task) = &arguments.fleet_node {
        return fleet::run_node(task).await;
    }
    if let Some(task) = &arguments.memory_node {
        return memory::run_node(task).await;
    }
    let began = Instant::now();
    let bench = Bench::new(arguments)?;
    if bench.arguments.redraw {
        return bench.redraw();
    }
    let setup = bench.look().await.context("looking at the machine")?;
    let mut figures = Vec::new();
    for id in bench.arguments.ids() {
        // SQLite is in this process.
        let neighbours = || Neighbours::look(id != "P8");
        let before = neighbours();
        let figure = Box::pin(bench.measure(id)).await.context(id)?;
        let others = before.zip(neighbours()).map(|(before, now)| before.share_until(now));
        let mut figure = figure.beside(others);
        figure.setup = Some(setup.clone());
        bench.keep(&figure)?;
        figures.push(figure);
    }
    bench.print(figures)?;
    let (took, out) = (began.elapsed().as_secs(), bench.arguments.out.display());
    progress::say("bench", &format!("took {took} s; report and pictures: {out}"));
    Ok(())
}

/// What is asked for, and the servers to ask.
struct Bench {
    arguments: Arguments,
    plan: Plan,
    postgres: Option<String>,
    mysql: Option<String>,
}

impl Bench {
    fn new(arguments: Arguments) -> anyhow::Result<Self> {
        let url = |name: &str, is_needed: bool| match std::env::var(name) {
            _ if !is_needed => Ok(None),
            Ok(url) => Ok(Some(url)),
            Err(_) => anyhow::bail!("{name} is not set; run `cargo xtask bench`"),
        };
        Ok(Self {
            plan: Plan::new(&arguments)?,
            postgres: url("POSTROOM_BENCH_PG_URL", arguments.needs_postgres())?,
            mysql: url("POSTROOM_BENCH_MYSQL_URL", arguments.needs_mariadb())?,
            arguments,
        })
    }

    async fn look(&self) -> anyhow::Result<Setup> {
        Setup::look(self.postgres.as_deref(), self.mysql.as_deref()).await
    }

    async fn measure(&self, id: &str) -> anyhow::Result<Figure> {
        let (plan, arguments) = (self.plan, &self.arguments);
        let postgres = self.postgres.as_deref().unwrap_or_default();
        match id {
            "P1" => drain::measure(postgres, plan, self.drains(Database::Postgres)?).await,
            "P2" => hot::measure(postgres, plan).await,
            "P3" => latency::measure(postgres, plan, self.latencies()?).await,
            "P4" => wal::measure(postgres, plan).await,
            "P5" => claims::measure(postgres, plan, arguments.settled, arguments.backlog).await,
            "P6" => steady::measure(postgres, plan, arguments.rate, arguments.minutes).await,
            "P7" => order::measure(postgres, plan).await,
            "P8" => sqlite::measure(plan, self.drains(Database::Sqlite)?).await,
            "P9" => mysql::measure(self.mysql.as_deref().unwrap_or_default(), plan).await,
            "P10" => memory::measure(postgres, plan, arguments.backlog).await,
            "P11" => fleet::measure(postgres, &sizes(&arguments.stores)?).await,
            "P12" => pages::measure(postgres, i64::try_from(arguments.kept)?).await,
            curve => curves::measure(curve, postgres, plan, arguments).await,
        }
    }

    /// The peers that drain a backlog, if they are asked for.
    fn drains(&self, database: Database) -> anyhow::Result<Vec<Contestant<'_>>> {
        if !self.arguments.peers {
            return Ok(Vec::new());
        }
        let url = self.postgres.as_deref().unwrap_or_default();
        peers::drains(database, url, self.plan, Duration::from_secs(self.arguments.patience))
    }

    /// The peers that measure the way from a commit to a handler.
    fn latencies(&self) -> anyhow::Result<Vec<Contestant<'_>>> {
        if !self.arguments.peers {
            return Ok(Vec::new());
        }
        peers::latencies(self.postgres.as_deref().unwrap_or_default(), self.plan)
    }

    /// As soon as a figure is there: a run takes long, and may be cut.
    fn keep(&self, figure: &Figure) -> anyhow::Result<()> {
        let out = &self.arguments.out;
        let place = || format!("cannot write to {}", out.display());
        std::fs::create_dir_all(out).with_context(place)?;
        json::merge(&out.join("report.json"), std::slice::from_ref(figure))?;
        self.draw(figure)
    }

    fn draw(&self, figure: &Figure) -> anyhow::Result<()> {
        let file = self.arguments.out.join(format!("{}.svg", figure.id.to_lowercase()));
        let place = || format!("cannot write {}", file.display());
        std::fs::write(&file, picture::draw(figure)?).with_context(place)
    }

    fn redraw(&self) -> anyhow::Result<()> {
        let document = json::merge(&self.arguments.out.join("report.json"), &[])?;
        document.figures.iter().try_for_each(|figure| self.draw(figure))?;
        self.print(document.figures)
    }

    fn print(&self, figures: Vec<Figure>) -> anyhow::Result<()> {
        if self.arguments.json {
            print!("{}", json::text(&json::Document { figures })?);
        } else {
            println!("{}", lines::text(&figures));
        }
        Ok(())
    }
}

fn sizes(numbers: &[u64]) -> anyhow::Result<Vec<usize>> {
    Ok(numbers.iter().map(|number| usize::try_from(*number)).collect::<Result<_, _>>()?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
