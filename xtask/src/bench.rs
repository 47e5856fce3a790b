//! `cargo xtask bench`: the benchmarks on servers that wait for the disk.

use std::path::Path;

use anyhow::Result;
use clap::{Args, Parser as _};

use crate::{peers, workspace};
use arguments::Arguments;
use postroom_servers::{Durability, Kind, Servers, process, url_in_environment};

// The program's own, read here as well: help and mistakes need neither a build nor a server.
#[path = "../../benches/src/arguments.rs"]
mod arguments;

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of the benchmark program; --help shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Runs the benchmark program. The servers have fsync on: numbers without it would be fiction.
pub(crate) fn run(options: &Options) -> Result<()> {
    let words = ["cargo xtask bench".to_owned()].into_iter();
    let arguments = Arguments::try_parse_from(words.chain(options.arguments.iter().cloned()))
        .unwrap_or_else(|error| error.exit());
    let missing = missing_servers(&arguments);
    let kinds: Vec<_> = missing.iter().map(|(kind, _)| *kind).collect();
    let started = Servers::start_own(&kinds, Durability::Real)?;
    let metadata = workspace::metadata()?;
    let target = Path::new(workspace::text(&metadata["target_directory"]));
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "postroom-bench", "--"]);
    command.args(&options.arguments);
    command.env("POSTROOM_BENCH_OUT", target.join("bench"));
    if arguments.peers {
        command.env("POSTROOM_BENCH_PEERS", peers::prepare()?);
    }
    for (kind, variable) in missing {
        if let Some(url) = started.url(kind) {
            command.env(variable, url);
        }
    }
    process::run(&mut command)
}

/// The servers to start, each with the variable that names one which is there already.
fn missing_servers(arguments: &Arguments) -> Vec<(Kind, &'static str)> {
    let needed = [
        (arguments.needs_postgres(), Kind::Postgres, "POSTROOM_BENCH_PG_URL"),
        (arguments.needs_mariadb(), Kind::MariaDb, "POSTROOM_BENCH_MYSQL_URL"),
    ];
    let is_missing = |variable| url_in_environment(variable).is_none();
    let missing = needed.into_iter().filter(|(needs, _, variable)| *needs && is_missing(variable));
    missing.map(|(_, kind, variable)| (kind, variable)).collect()
}
