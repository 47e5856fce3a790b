//! Database clients of other languages, for the tests that call our SQL from there.
//!
//! They are handed to the tests by environment variables, like the URLs of the servers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use postroom_servers::process;

use crate::packages::{self, Packages};

const PYTHON: Packages = Packages::python("Python", &["psycopg[binary]==3.3.8", "PyMySQL==1.2.4"]);

const NODE: Packages = Packages::node("Node.js", &["pg@8.23.1", "mysql2@3.24.5"]);

const SCHEMATHESIS: Packages = Packages::python("schemathesis", &["schemathesis==4.32.5"]);

/// What the tests need to know to run scripts in other languages.
#[derive(Debug, Default)]
pub(crate) struct Clients(Vec<(&'static str, PathBuf)>);

impl Clients {
    /// Finds the clients, or installs them.
    pub(crate) fn install() -> Result<Self> {
        let folder = packages::folder("clients")?;
        let python = folder.join("python");
        let node = folder.join("node");
        PYTHON.prepare(&python)?;
        NODE.prepare(&node)?;
        let program = process::on_path(NODE.program).context("node is gone")?;
        Ok(Self(vec![
            ("POSTROOM_TEST_PYTHON", python.join("bin/python")),
            ("POSTROOM_TEST_NODE", program),
            ("POSTROOM_TEST_NODE_MODULES", node.join("node_modules")),
        ]))
    }

    /// The environment variables that the tests read.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.0.iter().map(|(name, path)| (*name, path.as_path()))
    }
}

/// `cargo xtask clients`: installs them and prints the variables for a shell.
pub(crate) fn print() -> Result<()> {
    for (variable, path) in Clients::install()?.variables() {
        println!("export {variable}={}", path.display());
    }
    Ok(())
}

/// The program that asks an API what its description promises. Installed apart, on first use.
pub(crate) fn schemathesis() -> Result<PathBuf> {
    let folder = packages::folder("clients")?.join("schemathesis");
    SCHEMATHESIS.prepare(&folder)?;
    Ok(folder.join("bin/schemathesis"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_is_pinned() {
        let python = PYTHON.wanted.iter().chain(SCHEMATHESIS.wanted);
        assert!(python.into_iter().all(|client| client.contains("==")));
        assert!(NODE.wanted.iter().all(|client| client.contains('@')));
    }
}
