//! Packages of other languages, installed on first use into the target folder.
//!
//! Each is wanted in exactly one version, from the registry of its language.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use postroom_servers::process;

use crate::workspace;

/// What its own package manager installs for one language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packages {
    /// Who it is for, in messages.
    pub(crate) name: &'static str,
    /// The packages, each with its version.
    pub(crate) wanted: &'static [&'static str],
    /// The program of the language.
    pub(crate) program: &'static str,
    /// The Debian packages with the language itself.
    system_packages: &'static [&'static str],
    install: fn(&Path, &Packages) -> Result<()>,
}

impl Packages {
    pub(crate) const fn python(name: &'static str, wanted: &'static [&'static str]) -> Self {
        let system_packages = &["python3", "python3-venv"];
        Self { name, wanted, program: "python3", system_packages, install: install_python }
    }

    pub(crate) const fn node(name: &'static str, wanted: &'static [&'static str]) -> Self {
        let system_packages = &["nodejs", "npm"];
        Self { name, wanted, program: "node", system_packages, install: install_node }
    }

    /// Makes the folder hold exactly these packages. A note that is written last says which they
    /// are, so that half an installation is never used.
    pub(crate) fn prepare(&self, folder: &Path) -> Result<()> {
        if process::on_path(self.program).is_none() {
            postroom_servers::install_packages(self.name, self.system_packages)?;
        }
        let note = folder.join("installed");
        let wanted = self.wanted.join("\n");
        if fs::read_to_string(&note).is_ok_and(|found| found == wanted) {
            return Ok(());
        }
        eprintln!("{}: installing {}", self.name, self.wanted.join(", "));
        if folder.exists() {
            fs::remove_dir_all(folder).context("cannot remove old packages")?;
        }
        fs::create_dir_all(folder).context("cannot create the folder of the packages")?;
        (self.install)(folder, self)
            .with_context(|| format!("cannot install the packages for {}", self.name))?;
        fs::write(&note, wanted).context("cannot write which packages are installed")
    }
}

/// A folder below the target folder.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    Ok(Path::new(workspace::text(&metadata["target_directory"])).join(name))
}

fn install_python(folder: &Path, packages: &Packages) -> Result<()> {
    let environment = || {
        let mut command = Command::new(packages.program);
        command.args(["-m", "venv", "--clear"]).arg(folder);
        process::capture_ok(&mut command)
    };
    // Debian has the module for it in a package of its own.
    if environment().is_err() {
        postroom_servers::install_packages("Python's venv", packages.system_packages)?;
        environment()?;
    }
    let mut command = Command::new(folder.join("bin/python"));
    command.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install"]);
    process::capture_ok(command.args(packages.wanted)).map(drop)
}

fn install_node(folder: &Path, packages: &Packages) -> Result<()> {
    if process::on_path("npm").is_none() {
        postroom_servers::install_packages("npm", packages.system_packages)?;
    }
    let mut command = Command::new("npm");
    // An answer within a minute, also where nothing can be fetched.
    command.args(["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]);
    command.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
    trust_what_the_system_trusts(&mut command);
    process::capture_ok(command.args(packages.wanted).current_dir(folder))?;
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

    fn write_package(folder: &Path, packages: &Packages) -> Result<()> {
        Ok(fs::write(folder.join("package"), packages.wanted.join(" "))?)
    }

    fn fail(_: &Path, _: &Packages) -> Result<()> {
        bail!("planted")
    }

    fn packages(wanted: &'static [&'static str]) -> Packages {
        Packages { program: "sh", install: write_package, ..Packages::node("L", wanted) }
    }

    #[test]
    fn packages_are_installed_once_and_again_when_others_are_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("l");
        packages(&["a@1"]).prepare(&folder).unwrap();
        fs::write(folder.join("package"), "used").unwrap();
        packages(&["a@1"]).prepare(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("package")).unwrap(), "used");
        packages(&["a@2"]).prepare(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join("package")).unwrap(), "a@2");
    }

    #[test]
    fn half_an_installation_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let failing = Packages { install: fail, ..packages(&["a@1"]) };
        assert!(failing.prepare(folder.path()).is_err());
        packages(&["a@1"]).prepare(folder.path()).unwrap();
        assert!(folder.path().join("package").exists());
    }
}
