//! Database clients of other languages, for the tests that call our SQL from there.
//!
//! They are installed on first use into the target folder, each in exactly one version, and
//! handed to the tests by environment variables, like the URLs of the servers.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use postroom_servers::process;

use crate::workspace;

const PYTHON: Language = Language {
    name: "Python",
    program: "python3",
    system_packages: &["python3", "python3-venv"],
    clients: &["psycopg[binary]==3.3.8", "PyMySQL==1.2.4"],
    install: install_python,
};

const NODE: Language = Language {
    name: "Node.js",
    program: "node",
    system_packages: &["nodejs", "npm"],
    clients: &["pg@8.23.1", "mysql2@3.24.5"],
    install: install_node,
};

const SCHEMATHESIS: Language =
    Language { name: "schemathesis", clients: &["schemathesis==4.32.5"], ..PYTHON };

/// How the clients of one language are had.
struct Language {
    name: &'static str,
    program: &'static str,
    /// The Debian packages with the language itself.
    system_packages: &'static [&'static str],
    /// What its own package manager installs.
    clients: &'static [&'static str],
    install: fn(&Path, &Language) -> Result<()>,
}

/// What the tests need to know to run scripts in other languages.
#[derive(Debug, Default)]
pub(crate) struct Clients(Vec<(&'static str, PathBuf)>);

impl Clients {
    /// Finds the clients, or installs them.
    pub(crate) fn install() -> Result<Self> {
        let metadata = workspace::metadata()?;
        let folder = Path::new(workspace::text(&metadata["target_directory"])).join("clients");
        let python = folder.join("python");
        let node = folder.join("node");
        prepare(&python, &PYTHON)?;
        prepare(&node, &NODE)?;
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
    let metadata = workspace::metadata()?;
    let folder = Path::new(workspace::text(&metadata["target_directory"])).join("clients");
    let folder = folder.join("schemathesis");
    prepare(&folder, &SCHEMATHESIS)?;
    Ok(folder.join("bin/schemathesis"))
}

/// Makes the folder hold exactly the clients of the language. A note that is written last says
/// which they are, so that half an installation is never used.
fn prepare(folder: &Path, language: &Language) -> Result<()> {
    if process::on_path(language.program).is_none() {
        postroom_servers::install_packages(language.name, language.system_packages)?;
    }
    let note = folder.join("installed");
    let wanted = language.clients.join("\n");
    if fs::read_to_string(&note).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    eprintln!("{}: installing {}", language.name, language.clients.join(", "));
    if folder.exists() {
        fs::remove_dir_all(folder).context("cannot remove old clients")?;
    }
    fs::create_dir_all(folder).context("cannot create the folder of the clients")?;
    (language.install)(folder, language)
        .with_context(|| format!("cannot install the clients of {}", language.name))?;
    fs::write(&note, wanted).context("cannot write which clients are installed")
}

fn install_python(folder: &Path, language: &Language) -> Result<()> {
    let environment = || {
        let mut command = Command::new(language.program);
        command.args(["-m", "venv", "--clear"]).arg(folder);
        process::capture_ok(&mut command)
    };
    // Debian has the module for it in a package of its own.
    if environment().is_err() {
        postroom_servers::install_packages("Python's venv", language.system_packages)?;
        environment()?;
    }
    let mut command = Command::new(folder.join("bin/python"));
    command.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]);
    process::capture_ok(command.args(language.clients)).map(drop)
}

fn install_node(folder: &Path, language: &Language) -> Result<()> {
    if process::on_path("npm").is_none() {
        postroom_servers::install_packages("npm", language.system_packages)?;
    }
    let mut command = Command::new("npm");
    // An answer within a minute, also where nothing can be fetched.
    command.args(["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]);
    command.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
    trust_what_the_system_trusts(&mut command);
    process::capture_ok(command.args(language.clients).current_dir(folder))?;
    if !folder.join("node_modules").is_dir() {
        bail!("npm installed nothing");
    }
    Ok(())
}

/// Node.js looks at its own list of authorities only, and not at that of the machine.
fn trust_what_the_system_trusts(command: &mut Command) {
    const TRUSTED: &str = "NODE_EXTRA_CA_CERTS";
    let system = Path::new("/etc/ssl/certs/ca-certificates.crt");
    if env::var_os(TRUSTED).is_none() && system.exists() {
        command.env(TRUSTED, system);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_client(folder: &Path, language: &Language) -> Result<()> {
        Ok(fs::write(folder.join("client"), language.clients.join(" "))?)
    }

    fn fail(_: &Path, _: &Language) -> Result<()> {
        bail!("planted")
    }

    fn language(client: &'static [&'static str]) -> Language {
        Language { name: "L", program: "sh", clients: client, install: write_client, ..NODE }
    }

    #[test]
    fn clients_are_installed_once_and_again_when_others_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("l");
        prepare(&folder, &language(&["a@1"])).unwrap();
        fs::write(folder.join("client"), "used").unwrap();
        prepare(&folder, &language(&["a@1"])).unwrap();
        assert_eq!(fs::read_to_string(folder.join("client")).unwrap(), "used");
        prepare(&folder, &language(&["a@2"])).unwrap();
        assert_eq!(fs::read_to_string(folder.join("client")).unwrap(), "a@2");
    }

    #[test]
    fn half_an_installation_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let failing = Language { install: fail, ..language(&["a@1"]) };
        assert!(prepare(folder.path(), &failing).is_err());
        prepare(folder.path(), &language(&["a@1"])).unwrap();
        assert!(folder.path().join("client").exists());
    }

    #[test]
    fn every_client_is_pinned() {
        let python = PYTHON.clients.iter().chain(SCHEMATHESIS.clients);
        assert!(python.into_iter().all(|client| client.contains("==")));
        assert!(NODE.clients.iter().all(|client| client.contains('@')));
    }
}
