//! `cargo xtask test`: every check in one order, stopped at the first failure.
//!
//! A server that is missing is a failure, never a silent skip; only `--only sqlite` and
//! `--quick` do without, and both say what they left out.

mod contract;
mod suite;
mod summary;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use self::contract::Round;
pub(crate) use self::suite::LIGHT_ADAPTERS;
use self::suite::Selection;
use self::summary::Summary;
use crate::clients::Clients;
use crate::{conform, tidy, workspace};
use postroom_servers::{Durability, Kind, Servers, process};

/// Asks the tests for their long versions.
const FULL: &str = "POSTROOM_TEST_FULL";

#[derive(Debug, Default, Args)]
pub(crate) struct Options {
    /// Only the fast part: format, clippy, tidy, core, SimStore and SQLite tests; no servers
    #[arg(long, conflicts_with_all = ["full", "only"])]
    quick: bool,
    /// Also the long versions of the tests (sets POSTROOM_TEST_FULL=1)
    #[arg(long, conflicts_with = "only")]
    full: bool,
    /// Leave out the tests that need a server; prints which these are
    #[arg(long, value_name = "STORE")]
    only: Option<Only>,
    /// Only this check of the full form, and the servers that it needs
    #[arg(long, value_name = "STEP", conflicts_with_all = ["quick", "only"])]
    step: Option<Step>,
    /// Run only the tests whose names contain one of these words, and no other check
    #[arg(last = true, value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    Sqlite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    Format,
    Clippy,
    Tidy,
    Servers,
    Tests,
    Adapters,
    Kafka,
    Traces,
    Contract,
    Alerts,
    Doctests,
    Docs,
    Conform,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Format => "format",
            Self::Clippy => "clippy",
            Self::Tidy => "tidy",
            Self::Servers => "servers",
            Self::Tests => "tests",
            Self::Adapters => "adapters",
            Self::Kafka => "kafka",
            Self::Traces => "traces",
            Self::Contract => "contract",
            Self::Alerts => "alerts",
            Self::Doctests => "doctests",
            Self::Docs => "docs",
            Self::Conform => "conform",
        }
    }
}

/// Runs the gate and prints the summary, also after a failure.
pub(crate) fn run(options: &Options) -> Result<()> {
    let steps = steps(options);
    let mut gate = Gate { options, servers: Servers::none(), clients: Clients::default() };
    let mut summary = Summary::default();
    let mut result = Ok(());
    for &step in &steps {
        println!("\n=== {}", step.name());
        let begin = Instant::now();
        result = gate.perform(step);
        summary.record(step.name(), result.is_ok(), begin.elapsed());
        if result.is_err() {
            break;
        }
    }
    drop(gate);
    for step in &steps[summary.len()..] {
        summary.skip(step.name());
    }
    println!("\n{}", summary.render());
    result.and(print_left_out(options))
}

fn steps(options: &Options) -> Vec<Step> {
    use Step::{
        Adapters, Alerts, Clippy, Conform, Contract, Docs, Doctests, Format, Kafka, Servers, Tests,
        Tidy, Traces,
    };
    if let Some(step) = options.step {
        return vec![Servers, step];
    }
    let mut steps = if !options.filter.is_empty() {
        vec![Servers, Tests]
    } else if options.quick {
        vec![Format, Clippy, Tidy, Tests]
    } else {
        vec![
            Format, Clippy, Tidy, Servers, Tests, Adapters, Kafka, Traces, Contract, Alerts,
            Doctests, Docs, Conform,
        ]
    };
    if !options.full {
        steps.retain(|step| ![Adapters, Kafka, Traces, Contract, Alerts].contains(step));
    }
    if selection(options) != Selection::All {
        steps.retain(|&step| step != Servers);
    }
    steps
}

fn selection(options: &Options) -> Selection {
    match options.only {
        _ if options.quick => Selection::Quick,
        Some(Only::Sqlite) => Selection::WithoutServers,
        None => Selection::All,
    }
}

fn print_left_out(options: &Options) -> Result<()> {
    if !options.filter.is_empty() || options.step.is_some() {
        println!("only a part of the tests ran, and no other check: this is not the gate");
    }
    if selection(options) != Selection::All {
        println!("{}", suite::left_out(selection(options), &workspace::metadata()?));
    }
    if !options.full {
        println!(
            "NOT RUN: the adapters for diesel and sea-orm, the Kafka sink, traces, the admin API \
             against its description, alert rules in promtool; `cargo xtask test --full` does."
        );
    }
    Ok(())
}

/// The state that steps share.
struct Gate<'a> {
    options: &'a Options,
    servers: Servers,
    clients: Clients,
}

impl Gate<'_> {
    fn perform(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Format => self.cargo(&["fmt", "--all", "--check"]),
            Step::Clippy => self.clippy(&["--workspace", "--features", LIGHT_ADAPTERS]),
            Step::Tidy => tidy::run(),
            Step::Servers => self.start_servers(),
            Step::Tests => self.tests(),
            Step::Adapters => self.adapters(),
            Step::Kafka => self.kafka(),
            Step::Traces => self.traces(),
            Step::Contract => self.contract(),
            Step::Alerts => alerts(),
            Step::Doctests => {
                self.cargo(&["test", "--workspace", "--features", LIGHT_ADAPTERS, "--doc"])
            }
            Step::Docs => self.docs(),
            Step::Conform => conform::compare_lists(),
        }
    }

    fn start_servers(&mut self) -> Result<()> {
        self.clients = Clients::install()?;
        self.servers = Servers::start(Kind::ALL, Durability::Discarded)?;
        Ok(())
    }

    fn tests(&self) -> Result<()> {
        let selection = selection(self.options);
        let arguments = if suite::has_nextest() {
            suite::nextest(selection, &self.options.filter)
        } else {
            suite::libtest(selection, &self.options.filter, &workspace::metadata()?)
        };
        let mut command = workspace::cargo();
        command.args(arguments).env("NEXTEST_TEST_THREADS", tests_at_once().to_string());
        process::run(self.environment(&mut command))
    }

    /// All adapters, with all their data layers.
    fn adapters(&self) -> Result<()> {
        if !finds(&["pkg-config", "--exists", "libpq"]) && !finds(&["pg_config", "--libdir"]) {
            bail!(
                "diesel links libpq, which is not here: `apt-get install libpq-dev pkg-config` on \
                 Debian, `brew install libpq pkgconf` on macOS"
            );
        }
        let package = ["--package", "postroom-adapters", "--all-features"];
        self.clippy(&package)?;
        self.cargo(&[&["test"], &package[..]].concat())
    }

    /// The sink that builds a C library, on the mock of a cluster that the library brings.
    fn kafka(&self) -> Result<()> {
        let needed = [
            (finds(&["pkg-config", "--exists", "openssl"]), "OpenSSL", "libssl-dev pkg-config"),
            (finds(&["kcat", "-V"]), "kcat, which reads what was written", "kcat"),
        ];
        if let Some((_, what, package)) = needed.iter().find(|(found, ..)| !found) {
            bail!("the Kafka sink needs {what}: `apt-get install {package}` on Debian");
        }
        let package = ["--package", "postroom-sinks", "--features", "kafka-tls"];
        self.clippy(&package)?;
        self.cargo(&[&["test"], &package[..], &["--lib", "--test", "kafka"]].concat())
    }

    /// What is built only for those who send traces; the rest of the build is that of the tests.
    fn traces(&self) -> Result<()> {
        let features = format!("{LIGHT_ADAPTERS},postroom-otel/otlp,postroom-cli/otel");
        let what = ["--workspace", "--features", &features, "--test", "otlp", "--test", "traces"];
        self.cargo(&[&["test"], &what[..]].concat())?;
        let features = ["--features", "postroom-otel/otlp,postroom-cli/otel"];
        let packages = ["--package", "postroom-otel", "--package", "postroom-cli"];
        self.clippy(&[&packages[..], &features[..]].concat())
    }

    /// The admin API against its description, on a file and on a server.
    fn contract(&self) -> Result<()> {
        self.cargo(&["build", "--workspace", "--features", LIGHT_ADAPTERS, "--bin", "postroom"])?;
        let metadata = workspace::metadata()?;
        let target = Path::new(workspace::text(&metadata["target_directory"]));
        let postgres = Kind::Postgres.variable();
        let url = self.servers.variables().find(|(variable, _)| *variable == postgres);
        let file = Round { name: "SQLite", url: None, phases: "coverage,fuzzing", examples: 20 };
        let mut rounds = vec![file];
        if let Some((_, url)) = url {
            let url = Some(url.to_owned());
            rounds.push(Round { name: "PostgreSQL", url, phases: "fuzzing", examples: 10 });
        }
        contract::check(&target.join("debug/postroom"), &rounds)
    }

    fn clippy(&self, what: &[&str]) -> Result<()> {
        self.cargo(&[&["clippy", "--all-targets"], what, &["--", "-D", "warnings"]].concat())
    }

    fn docs(&self) -> Result<()> {
        let mut command = workspace::cargo();
        command
            .args(["doc", "--no-deps", "--workspace", "--features", LIGHT_ADAPTERS])
            .env("RUSTDOCFLAGS", "-D warnings");
        process::run(self.environment(&mut command))
    }

    fn cargo(&self, arguments: &[&str]) -> Result<()> {
        process::run(self.environment(workspace::cargo().args(arguments)))
    }

    fn environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        if self.options.full {
            command.env(FULL, "1");
        }
        command.envs(self.clients.variables()).envs(self.servers.variables())
    }
}

/// More than cores: a third of the time tests wait, for a server, a disk or a killed process.
fn tests_at_once() -> usize {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    (3 * cores).div_ceil(2)
}

/// The alert rules in the program that will read them.
fn alerts() -> Result<()> {
    if !finds(&["promtool", "--version"]) {
        bail!("alert rules are read by promtool: `apt-get install prometheus` on Debian");
    }
    for arguments in [["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]] {
        let mut promtool = Command::new("promtool");
        promtool.args(arguments).current_dir(workspace::root().join("deploy/prometheus"));
        process::run(&mut promtool)?;
    }
    Ok(())
}

/// Whether a command succeeds.
fn finds(command: &[&str]) -> bool {
    process::succeeds(Command::new(command[0]).args(&command[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_has_every_step_in_order() {
        let names: Vec<_> = steps(&Options::default()).into_iter().map(Step::name).collect();
        let expected =
            ["format", "clippy", "tidy", "servers", "tests", "doctests", "docs", "conform"];
        assert_eq!(names, expected);
    }

    #[test]
    fn only_the_full_gate_needs_what_few_have() {
        let full = Options { full: true, ..Options::default() };
        for step in [Step::Adapters, Step::Kafka, Step::Traces, Step::Contract, Step::Alerts] {
            assert!(steps(&full).contains(&step));
            assert!(!steps(&Options::default()).contains(&step));
        }
    }

    #[test]
    fn quick_and_sqlite_start_no_servers() {
        let quick = Options { quick: true, ..Options::default() };
        let sqlite = Options { only: Some(Only::Sqlite), ..Options::default() };
        assert_eq!(steps(&quick), [Step::Format, Step::Clippy, Step::Tidy, Step::Tests]);
        assert!(!steps(&sqlite).contains(&Step::Servers));
        assert!(steps(&sqlite).contains(&Step::Conform));
    }

    #[test]
    fn one_step_has_its_servers() {
        let options = Options { step: Some(Step::Traces), ..Options::default() };
        assert_eq!(steps(&options), [Step::Servers, Step::Traces]);
    }

    #[test]
    fn filter_runs_tests_only() {
        let options = Options { filter: vec!["claim".into()], ..Options::default() };
        assert_eq!(steps(&options), [Step::Servers, Step::Tests]);
    }
}
