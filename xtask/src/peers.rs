//! The projects that the benchmarks compare us with, installed from their registries.
//!
//! Each is a small program in `benches/peers`. What cannot be installed here is not left out: the
//! list that the benchmark reads says why it is missing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use postroom_servers::{interrupt, process};

use crate::packages::{self, Packages};
use crate::workspace;

/// The Node.js that the peers run in. Current releases of them want a newer one than many
/// systems have.
const NODE: Packages = Packages::node("Node.js for peers", &["node@24.21.0"]);

/// The file with the list, in the folder that the benchmark is told.
const LIST: &str = "peers.json";

struct Peer {
    name: &'static str,
    database: &'static str,
    /// Whether it also measures the way from a commit to a handler.
    latency: bool,
    program: Program,
}

enum Program {
    /// A cargo project in `benches/peers/rust`.
    Rust(&'static str),
    /// A script in `benches/peers/node`, of the peer's name, and what it imports.
    Node(Packages),
    /// A script in `benches/peers/python`, of the peer's name, and what it imports.
    Python(Packages),
}

impl Peer {
    const fn postgres(name: &'static str, program: Program) -> Self {
        Self { name, database: "postgres", latency: false, program }
    }

    const fn sqlite(name: &'static str, program: Program) -> Self {
        Self { name, database: "sqlite", latency: false, program }
    }

    const fn with_latency(mut self) -> Self {
        self.latency = true;
        self
    }

    /// Installs it; answers how it is called.
    fn prepare(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let sources = workspace::root().join("benches/peers");
        match &self.program {
            Program::Rust(project) => {
                let manifest = sources.join("rust").join(project).join("Cargo.toml");
                Ok(vec![build(&manifest, project, &folder.join("rust"))?])
            }
            Program::Node(packages) => {
                let runtime = folder.join("node/runtime");
                NODE.prepare(&runtime)?;
                let home = folder.join("node").join(self.name);
                packages.prepare(&home)?;
                // Modules are looked for next to the script that imports them.
                copy_scripts(&sources.join("node"), &home)?;
                let node = runtime.join("node_modules/node/bin/node");
                Ok(vec![node, home.join(self.name).with_extension("mjs")])
            }
            Program::Python(packages) => {
                let home = folder.join("python").join(self.name);
                packages.prepare(&home)?;
                let script = sources.join("python").join(self.name).with_extension("py");
                Ok(vec![home.join("bin/python"), script])
            }
        }
    }

    fn entry(&self, prepared: &Result<Vec<PathBuf>>) -> Value {
        json!({
            "name": self.name,
            "database": self.database,
            "latency": self.latency,
            "command": prepared.as_ref().ok(),
            "missing": prepared.as_ref().err().map(|error| format!("{error:#}")),
        })
    }
}

const PEERS: [Peer; 10] = [
    Peer::postgres("graphile_worker", Program::Rust("graphile_worker")).with_latency(),
    Peer::postgres(
        "graphile-worker",
        Program::Node(Packages::node("graphile-worker", &["graphile-worker@0.18.0", "pg@8.23.1"])),
    )
    .with_latency(),
    Peer::postgres(
        "pg-boss",
        Program::Node(Packages::node("pg-boss", &["pg-boss@12.35.0", "pg@8.23.1"])),
    ),
    Peer::postgres("apalis-postgres", Program::Rust("apalis")).with_latency(),
    Peer::postgres("sqlxmq", Program::Rust("sqlxmq")).with_latency(),
    Peer::postgres(
        "pgqueuer",
        Program::Python(Packages::python(
            "pgqueuer",
            &["pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"],
        )),
    ),
    Peer::postgres(
        "pg-transactional-outbox",
        Program::Node(Packages::node(
            "pg-transactional-outbox",
            &["pg-transactional-outbox@0.5.7", "pg@8.23.1"],
        )),
    ),
    Peer::sqlite("apalis-sqlite", Program::Rust("apalis")),
    Peer::sqlite("effectum", Program::Rust("effectum")),
    Peer::sqlite("fang", Program::Rust("fang")),
];

/// Installs all peers; answers the folder with the list of them.
pub(crate) fn prepare() -> Result<PathBuf> {
    let folder = packages::folder("peers")?;
    fs::create_dir_all(&folder).context("cannot create the folder of the peers")?;
    let mut list = Vec::new();
    for peer in &PEERS {
        eprintln!("peer {}: preparing", peer.name);
        let prepared = peer.prepare(&folder);
        interrupt::check()?;
        if let Err(error) = &prepared {
            eprintln!("peer {}: {error:#}", peer.name);
        }
        list.push(peer.entry(&prepared));
    }
    fs::write(folder.join(LIST), serde_json::to_string_pretty(&list)?)
        .context("cannot write the list of the peers")?;
    Ok(folder)
}

/// Builds a peer with the versions in its own lock file.
fn build(manifest: &Path, project: &str, target: &Path) -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--locked", "--quiet", "--manifest-path"]).arg(manifest);
    process::run(command.arg("--target-dir").arg(target))?;
    Ok(target.join("release").join(format!("peer-{project}")))
}

fn copy_scripts(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).context("cannot read the folder of the scripts")? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name())).context("cannot copy a script")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_pinned() {
        for peer in &PEERS {
            let pinned = match &peer.program {
                Program::Rust(project) => {
                    let root = workspace::root().join("benches/peers/rust").join(project);
                    root.join("Cargo.lock").is_file()
                }
                Program::Node(packages) => packages.wanted.iter().all(|one| one.contains('@')),
                Program::Python(packages) => packages.wanted.iter().all(|one| one.contains("==")),
            };
            assert!(pinned, "{}", peer.name);
        }
    }

    #[test]
    fn missing_peer_says_why() {
        let entry = PEERS[0].entry(&Err(anyhow::anyhow!("planted")));
        assert_eq!(entry["missing"], "planted");
        assert_eq!(entry["command"], Value::Null);
    }
}
