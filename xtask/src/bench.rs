//! `cargo xtask bench`: the benchmarks on a PostgreSQL that waits for the disk.

use anyhow::Result;
use clap::Args;

use crate::servers::{self, Durability, Kind, Servers};
use crate::{process, workspace};

/// Names the server to measure; when it is set, nothing is started.
const VARIABLE: &str = "POSTROOM_BENCH_PG_URL";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Arguments of the benchmark program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the benchmark program. The server has fsync on: numbers without it would be fiction.
pub(crate) fn run(options: &Options) -> Result<()> {
    let given = servers::url_in_environment(VARIABLE);
    let started = match given {
        Some(_) => Servers::none(),
        None => Servers::start_own(&[Kind::Postgres], Durability::Real)?,
    };
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "postroom-bench", "--"]);
    command.args(&options.arguments);
    if let Some(url) = given.as_deref().or_else(|| started.url(Kind::Postgres)) {
        command.env(VARIABLE, url);
    }
    process::run(&mut command)
}
