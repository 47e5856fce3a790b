//! The project's one task runner, called as `cargo xtask <command>`.
//!
//! What a person types before a commit and what continuous integration runs are the same
//! program: `cargo xtask test`. It is not shipped and no other crate depends on it. Its
//! invariant: whatever it starts, it stops, also when a step fails or a signal arrives.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to the person who called it"
)]

mod bench;
mod clients;
mod conform;
mod gate;
mod init;
mod packages;
mod peers;
mod servers;
mod table;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Exit status of a command that a signal ended, as shells report SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

/// Postroom's task runner: tests, servers, parity table, checks and benchmarks.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the gate: format, lints, tidy, tests on real servers, docs, store parity
    Test(gate::Options),
    /// Start the servers that the tests need and keep them until Ctrl-C
    Servers(servers::Options),
    /// Install the database clients of other languages that the tests need
    Clients,
    /// Compare the conformance cases of all stores, area by area
    Conform(conform::Options),
    /// Check the house rules that compilers do not know (seconds, no network)
    Tidy,
    /// Run the benchmarks on a PostgreSQL that really writes to disk
    Bench(bench::Options),
    /// Enable the git hooks of this repository
    Init,
}

fn main() -> ExitCode {
    match postroom_servers::interrupt::watch().and_then(|()| perform(Cli::parse().task)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<postroom_servers::interrupt::Interrupted>() => {
            eprintln!("xtask: interrupted");
            ExitCode::from(EXIT_INTERRUPTED)
        }
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Test(options) => gate::run(&options),
        Task::Servers(options) => servers::serve(&options),
        Task::Clients => clients::print(),
        Task::Conform(options) => conform::run(&options),
        Task::Tidy => tidy::run(),
        Task::Bench(options) => bench::run(&options),
        Task::Init => init::run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn quick_and_full_exclude_each_other() {
        let parsed = Cli::try_parse_from(["xtask", "test", "--quick", "--full"]);
        assert!(parsed.is_err());
    }

    #[test]
    fn words_after_two_dashes_are_the_filter() {
        let cli = Cli::try_parse_from(["xtask", "test", "--full", "--", "claim"]).unwrap();
        let Task::Test(options) = cli.task else { panic!("not the test task: {cli:?}") };
        assert_eq!(options.filter, ["claim"]);
    }
}
