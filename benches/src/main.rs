//! `cargo xtask bench`: the store next to the same SQL through the bare driver, in one run.
//!
//! Each round fills a queue, drains it through Postroom and through the control, in turns, so that
//! a noisy machine disturbs both. What is printed is the median of the rounds and the ratio of
//! medians.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod control;
mod engine;
mod fill;
mod fleet;
mod mysql;
mod pages;
mod peers;
mod postgres;
mod report;
mod sqlite;

use std::time::Duration;

use anyhow::Context;
use clap::Parser;

/// Measures claiming and settling against the same SQL through the bare driver.
#[derive(Debug, Parser)]
struct Arguments {
    /// Messages in the backlog of each round
    #[arg(long, default_value_t = 100_000)]
    messages: usize,
    /// Rounds; the medians of them are compared
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Items per claim
    #[arg(long, default_value_t = 500)]
    batch: u32,
    /// Bytes of payload
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// 20,000 messages and 3 rounds
    #[arg(long)]
    quick: bool,
    /// Only this figure: P1, P2, P3, P7, P8, P9, P11 or P12; or only the peers, once each: peers
    #[arg(long)]
    only: Option<String>,
    /// Messages in the table whose pages are looked at (P12)
    #[arg(long, default_value_t = 5_000_000)]
    kept: i64,
    /// How many databases, one number after the other, and of the last one also files (P11)
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 500])]
    stores: Vec<usize>,
    /// One process of a fleet, for P11
    #[arg(long, hide = true)]
    fleet_node: Option<String>,
    /// The peers as well; `cargo xtask bench` installs them
    #[arg(long)]
    peers: bool,
    /// Seconds after which a peer that is still draining is stopped and gets the rate until then
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// One JSON document instead of a table
    #[arg(long)]
    json: bool,
}

/// What every round has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) messages: usize,
    pub(crate) rounds: usize,
    pub(crate) batch: u32,
    pub(crate) payload: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(task) = &arguments.fleet_node {
        return fleet::run_node(task).await;
    }
    let plan = Plan {
        messages: if arguments.quick { 20_000 } else { arguments.messages },
        rounds: if arguments.quick { 3 } else { arguments.rounds },
        batch: arguments.batch,
        payload: arguments.payload,
    };
    let variable = |name: &str| {
        std::env::var(name).with_context(|| format!("{name} is not set; run `cargo xtask bench`"))
    };
    let url = variable("POSTROOM_BENCH_PG_URL")?;
    if arguments.only.as_deref() == Some("peers") {
        return peers::run_once(&url, plan, Duration::from_secs(arguments.patience)).await;
    }
    let wanted = |id: &str| arguments.only.as_deref().is_none_or(|only| only == id);
    let mut figures = Vec::new();
    let mut latencies = Vec::new();
    if wanted("P1") {
        figures.push(postgres::drain(&url, plan, true).await.context("history kept")?);
        figures.push(postgres::drain(&url, plan, false).await.context("no history")?);
    }
    if wanted("P2") {
        figures.push(engine::hot(&url, plan).await.context("the hot path")?);
    }
    if wanted("P3") {
        for way in engine::Way::ALL {
            latencies.push(engine::latency(&url, plan, way).await.context("latency")?);
        }
    }
    if wanted("P7") {
        figures.extend(engine::order(&url, plan).await.context("order")?);
    }
    if wanted("P8") {
        figures.push(sqlite::drain(plan).await.context("SQLite")?);
    }
    if wanted("P9") {
        let server = variable("POSTROOM_BENCH_MYSQL_URL")?;
        figures.push(mysql::drain(&server, plan).await.context("MariaDB")?);
    }
    // It takes a quarter of an hour, most of it to see how little happens.
    let mut costs = Vec::new();
    if wanted("P11") && !(arguments.quick && arguments.only.is_none()) {
        costs = fleet::measure(&url, &arguments.stores).await.context("many databases")?;
    }
    // It fills the disk for minutes, so it is not a part of a quick run.
    if wanted("P12") && !(arguments.quick && arguments.only.is_none()) {
        latencies.extend(pages::measure(&url, arguments.kept).await.context("pages")?);
    }
    let report = report::Report { figures, latencies, costs };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{}", report::table(plan, &report));
    }
    Ok(())
}
