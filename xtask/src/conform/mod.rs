//! `cargo xtask conform`: do all stores keep the same promises?
//!
//! Each store runs the same conformance cases in a test binary of its own. This command puts
//! the results side by side and fails when a column lacks a case that another one has: a case
//! that silently does not run on a store is a promise nobody checks there.

mod libtest;
mod parity;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;

use self::parity::Parity;
use crate::gate::LIGHT_ADAPTERS;
use crate::table;
use crate::workspace::{self, items, text};
use postroom_servers::{Durability, Kind, Servers, process};

/// Fewer cases than this mean that the suite was not found, not that it is small.
const MINIMUM: usize = 80;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Compare only the names of the cases; nothing is run and no server is needed
    #[arg(long)]
    list: bool,
}

/// A store and where its conformance tests are.
#[derive(Debug)]
struct Column {
    store: &'static str,
    package: &'static str,
    test: &'static str,
    server: Option<Kind>,
}

const COLUMNS: [Column; 4] = [
    Column { store: "sim", package: "postroom-testkit", test: "sim", server: None },
    Column { store: "sqlite", package: "postroom-stores", test: "sqlite", server: None },
    Column {
        store: "postgres",
        package: "postroom-stores",
        test: "postgres",
        server: Some(Kind::Postgres),
    },
    Column {
        store: "mariadb",
        package: "postroom-stores",
        test: "mysql",
        server: Some(Kind::MariaDb),
    },
];

/// Runs or lists the cases of every store and prints the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.list { compare_lists() } else { compare_runs() }
}

/// Compares the names of the cases; needs the built test binaries and no server.
pub(crate) fn compare_lists() -> Result<()> {
    let mut parity = Parity::default();
    for (column, binary) in build()? {
        let mut command = Command::new(&binary.executable);
        command.args(["--list", "--format", "terse"]);
        parity.add(column.store, libtest::listed(&process::capture_ok(&mut command)?));
    }
    report(&parity)
}

fn compare_runs() -> Result<()> {
    let binaries = build()?;
    let kinds: Vec<Kind> = COLUMNS.iter().filter_map(|column| column.server).collect();
    let servers = Servers::start(&kinds, Durability::Discarded)?;
    let mut parity = Parity::default();
    for (column, binary) in binaries {
        let mut command = Command::new(&binary.executable);
        command.arg(libtest::PREFIX).current_dir(&binary.folder).envs(servers.variables());
        command.env("CARGO_MANIFEST_DIR", &binary.folder);
        let (status, output) = process::capture(&mut command)?;
        if !status.success() {
            println!("--- {} ({status})\n{output}", column.store);
        }
        let results = libtest::results(&output);
        if !status.success() && !results.values().any(|result| result.is_failure()) {
            bail!("the tests of {} ended early ({status})", column.store);
        }
        parity.add(column.store, results);
    }
    report(&parity)
}

fn report(parity: &Parity) -> Result<()> {
    println!("{}", table::render(&parity.rows()));
    let problems = parity.problems(MINIMUM);
    if problems.is_empty() {
        return Ok(());
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    bail!("the stores differ or fail (listed above): {}", problems.len())
}

/// A built test binary and the folder of its package, in which cargo runs tests.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    executable: PathBuf,
    folder: PathBuf,
}

/// Builds the test binaries with the features that the whole workspace's tests have.
fn build() -> Result<Vec<(&'static Column, Binary)>> {
    for column in &COLUMNS {
        let path = format!("crates/{}/tests/{}", column.package, column.test);
        let there = |file: String| workspace::root().join(file).is_file();
        if !there(format!("{path}.rs")) && !there(format!("{path}/main.rs")) {
            bail!("{path} does not exist: the store {} has no conformance tests", column.store);
        }
    }
    let mut command = workspace::cargo();
    // As the gate builds them, so that there they are built already.
    command.args(["test", "--workspace", "--features", LIGHT_ADAPTERS, "--no-run"]);
    command.arg("--message-format=json-render-diagnostics");
    COLUMNS.iter().for_each(|column| _ = command.args(["--test", column.test]));
    let messages = process::capture_ok(&mut command)?;
    let find = |column: &'static Column| {
        let binary = messages.lines().find_map(|line| artifact(line, column));
        let missing = || format!("cargo built no test {} in {}", column.test, column.package);
        Ok((column, binary.with_context(missing)?))
    };
    COLUMNS.iter().map(find).collect()
}

/// The binary of a column, when this is cargo's message about it.
fn artifact(line: &str, column: &Column) -> Option<Binary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let target = &message["target"];
    let is_test = items(&target["kind"]).iter().any(|kind| kind == "test");
    let folder = PathBuf::from(text(&message["manifest_path"])).parent()?.to_path_buf();
    let matches = message["reason"] == "compiler-artifact"
        && is_test
        && target["name"] == column.test
        && folder.ends_with(column.package);
    let executable = message["executable"].as_str()?;
    matches.then(|| Binary { executable: executable.into(), folder })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(package: &str, kind: &str) -> String {
        let manifest = format!("/src/crates/{package}/Cargo.toml");
        json!({
            "reason": "compiler-artifact",
            "manifest_path": manifest,
            "target": {"name": "postgres", "kind": [kind]},
            "executable": "/target/debug/deps/postgres-1",
        })
        .to_string()
    }

    #[test]
    fn artifact_is_found_by_package_and_name() {
        let column = &COLUMNS[2];
        let found = artifact(&message("postroom-stores", "test"), column).unwrap();
        assert_eq!(found.executable, PathBuf::from("/target/debug/deps/postgres-1"));
        assert_eq!(found.folder, PathBuf::from("/src/crates/postroom-stores"));
        assert_eq!(artifact(&message("postroom-cli", "test"), column), None);
        assert_eq!(artifact(&message("postroom-stores", "lib"), column), None);
        assert_eq!(artifact("   Compiling postroom-stores", column), None);
    }
}
