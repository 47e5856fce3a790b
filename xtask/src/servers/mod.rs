//! The servers that tests and benchmarks need: found or installed, started privately, stopped.
//!
//! One file per product implements [`Product`]; everything else is common. Each server runs as
//! an unprivileged user on a free loopback port with all its files in one temporary folder.
//! Only processes that were started here are ever stopped. To add a product: a file that
//! implements [`Product`] and a line in [`Kind::product`].

mod account;
mod apt;
mod mariadb;
mod postgres;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, thread};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use tempfile::TempDir;

use self::account::Account;
use crate::interrupt;
use crate::process::{self, Background};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Wait for the disk as in production (fsync on); slower, for measurements
    #[arg(long)]
    real_durability: bool,
}

/// Whether a server waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// No: the data is thrown away after the tests anyway.
    Discarded,
    /// Yes, as in production: benchmarks and crash tests mean something only so.
    Real,
}

/// The products that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    MariaDb,
}

impl Kind {
    /// Every server that the tests need.
    pub(crate) const ALL: &[Self] = &[Self::Postgres, Self::MariaDb];

    fn product(self) -> &'static dyn Product {
        match self {
            Self::Postgres => &postgres::Postgres,
            Self::MariaDb => &mariadb::MariaDb,
        }
    }
}

/// What differs from one product to the next.
trait Product {
    /// The name people know it by.
    fn name(&self) -> &'static str;

    /// The environment variable with the URL that the tests read.
    fn variable(&self) -> &'static str;

    /// The Debian packages that contain it.
    fn packages(&self) -> &'static [&'static str];

    /// The system user it runs as when we are root, if that user exists.
    fn user(&self) -> &'static str;

    /// The folder with its programs, if it is installed.
    fn find(&self) -> Option<PathBuf>;

    /// Starts it and returns when it accepts connections.
    fn start(&self, place: &Place<'_>) -> Result<(Background, String)>;
}

/// Where and how a server is started.
struct Place<'a> {
    /// The folder with its programs.
    programs: &'a Path,
    /// The folder for its files, owned by `account`.
    home: &'a Path,
    /// The unprivileged user, when we are root.
    account: Option<&'a Account>,
    durability: Durability,
}

/// One server. Fields are dropped in order: first the process ends, then its folder goes.
#[derive(Debug)]
struct Running {
    kind: Kind,
    url: String,
    /// Absent when the environment named a server: that one is not ours to stop.
    process: Option<Background>,
    _home: Option<TempDir>,
}

/// The servers of one run; they are stopped when this value goes away.
#[derive(Debug)]
pub(crate) struct Servers(Vec<Running>);

impl Servers {
    /// No servers at all.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// Makes the servers available: those named in the environment as they are, others started.
    pub(crate) fn start(kinds: &[Kind], durability: Durability) -> Result<Self> {
        let one = |&kind: &Kind| {
            let product = kind.product();
            let Some(url) = url_in_environment(product.variable()) else {
                let running = start_one(kind, durability)?;
                println!("{}: started a private server", product.name());
                return Ok(running);
            };
            println!("{}: using the server that {} names", product.name(), product.variable());
            Ok(Running { kind, url, process: None, _home: None })
        };
        kinds.iter().map(one).collect::<Result<_>>().map(Self)
    }

    /// Starts servers of our own, whatever the environment says.
    pub(crate) fn start_own(kinds: &[Kind], durability: Durability) -> Result<Self> {
        kinds.iter().map(|&kind| start_one(kind, durability)).collect::<Result<_>>().map(Self)
    }

    /// The URL of one server.
    pub(crate) fn url(&self, kind: Kind) -> Option<&str> {
        self.0.iter().find(|running| running.kind == kind).map(|running| running.url.as_str())
    }

    /// The environment variables that the tests read.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|running| (running.kind.product().variable(), running.url.as_str()))
    }

    /// The name of a server that ended without being asked to.
    fn dead(&mut self) -> Result<Option<&'static str>> {
        for running in &mut self.0 {
            if let Some(process) = &mut running.process
                && process.exited()?.is_some()
            {
                return Ok(Some(running.kind.product().name()));
            }
        }
        Ok(None)
    }
}

/// `cargo xtask servers`: keeps the servers until a signal arrives.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let durability = if options.real_durability { Durability::Real } else { Durability::Discarded };
    let mut servers = Servers::start_own(Kind::ALL, durability)?;
    for (variable, url) in servers.variables() {
        println!("export {variable}={url}");
    }
    println!("# running until Ctrl-C; paste the lines above into the shell that runs the tests");
    while !interrupt::requested() {
        if let Some(name) = servers.dead()? {
            bail!("{name} ended on its own");
        }
        thread::sleep(Duration::from_millis(100));
    }
    println!("# stopping");
    Ok(())
}

/// The value of an environment variable that is set and not empty.
pub(crate) fn url_in_environment(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|url| !url.is_empty())
}

fn start_one(kind: Kind, durability: Durability) -> Result<Running> {
    let product = kind.product();
    let programs = find_or_install(product)?;
    let account = Account::unprivileged(product.user())?;
    let home = tempfile::Builder::new()
        .prefix("postroom-server-")
        .tempdir()
        .context("cannot create a temporary folder")?;
    if let Some(account) = &account {
        account.own(home.path())?;
    }
    let place =
        Place { programs: &programs, home: home.path(), account: account.as_ref(), durability };
    let (process, url) =
        product.start(&place).with_context(|| format!("cannot start {}", product.name()))?;
    Ok(Running { kind, url, process: Some(process), _home: Some(home) })
}

fn find_or_install(product: &dyn Product) -> Result<PathBuf> {
    if let Some(programs) = product.find() {
        return Ok(programs);
    }
    if can_install() {
        install_packages(product.name(), product.packages())?;
        if let Some(programs) = product.find() {
            return Ok(programs);
        }
    }
    Err(missing(product))
}

/// Installs Debian packages, if we may.
pub(crate) fn install_packages(name: &str, packages: &[&str]) -> Result<()> {
    if !can_install() {
        bail!(
            "{name} is needed and was not found (Debian: `apt-get install {}`)",
            packages.join(" ")
        );
    }
    println!("{name} is not installed: installing it with apt-get");
    apt::install(packages)
}

fn can_install() -> bool {
    account::is_root() && process::on_path("apt-get").is_some()
}

fn missing(product: &dyn Product) -> anyhow::Error {
    anyhow!(
        "{name} is needed and was not found. Install it (Debian: `apt-get install {packages}`), \
         or set {variable} to the URL of a server whose databases may be created and dropped. \
         Tests that need no server: `cargo xtask test --only sqlite`.",
        name = product.name(),
        packages = product.packages().join(" "),
        variable = product.variable(),
    )
}

/// A loopback port that nobody uses at this moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_port_can_be_bound() {
        let port = free_port().unwrap();
        assert!(port >= 1024);
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    }

    #[test]
    fn unset_variable_names_no_server() {
        assert_eq!(url_in_environment("POSTROOM_TEST_NO_SUCH_VARIABLE"), None);
    }

    #[test]
    fn missing_server_message_says_what_to_do() {
        struct Absent;
        impl Product for Absent {
            fn name(&self) -> &'static str {
                "Absent"
            }
            fn variable(&self) -> &'static str {
                "POSTROOM_TEST_ABSENT_URL"
            }
            fn packages(&self) -> &'static [&'static str] {
                &["absent-server"]
            }
            fn user(&self) -> &'static str {
                "absent"
            }
            fn find(&self) -> Option<PathBuf> {
                None
            }
            fn start(&self, _: &Place<'_>) -> Result<(Background, String)> {
                bail!("absent")
            }
        }
        let message = missing(&Absent).to_string();
        for part in ["Absent", "apt-get install absent-server", "POSTROOM_TEST_ABSENT_URL"] {
            assert!(message.contains(part), "{message}");
        }
    }
}
