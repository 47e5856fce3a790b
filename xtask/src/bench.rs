//! `cargo xtask bench`: the benchmarks on servers that wait for the disk.

use anyhow::Result;
use clap::Args;

use crate::{peers, workspace};
use postroom_servers::{Durability, Kind, Servers, process, url_in_environment};

/// The servers to measure, and what names one that is there already; then it is not started.
const SERVERS: [(Kind, &str); 2] =
    [(Kind::Postgres, "POSTROOM_BENCH_PG_URL"), (Kind::MariaDb, "POSTROOM_BENCH_MYSQL_URL")];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Arguments of the benchmark program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Who wants the peers too, and where the benchmark finds them.
const PEERS: (&str, &str) = ("--peers", "POSTROOM_BENCH_PEERS");

/// Runs the benchmark program. The servers have fsync on: numbers without it would be fiction.
pub(crate) fn run(options: &Options) -> Result<()> {
    let missing: Vec<_> = SERVERS
        .into_iter()
        .filter(|(_, variable)| url_in_environment(variable).is_none())
        .collect();
    let kinds: Vec<_> = missing.iter().map(|(kind, _)| *kind).collect();
    let started = Servers::start_own(&kinds, Durability::Real)?;
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "postroom-bench", "--"]);
    command.args(&options.arguments);
    if options.arguments.iter().any(|argument| argument == PEERS.0) {
        command.env(PEERS.1, peers::prepare()?);
    }
    for (kind, variable) in missing {
        if let Some(url) = started.url(kind) {
            command.env(variable, url);
        }
    }
    process::run(&mut command)
}
