//! The servers that tests and benchmarks need: found or installed, started privately, stopped.
//!
//! One file per product implements `Product`; everything else is common. Each server runs as
//! an unprivileged user on a free loopback port with all its files in one temporary folder.
//! Only processes that were started here are ever stopped. To add a product: a file that
//! implements `Product` and a line in `Kind::product`.
//!
//! Most tests share the servers of the task runner, whose URLs are in the environment. A test that
//! kills its server starts one of its own: a [`Server`].
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "who waits for an installation wants to know that there is one"
)]

mod account;
mod apt;
mod chromium;
mod family;
pub mod interrupt;
mod mariadb;
mod nats;
mod postgres;
pub mod process;
mod rabbitmq;
mod redis;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs, thread};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use self::account::Account;
use self::process::Background;

/// How long a start may take; RabbitMQ takes seconds, the others less than one.
const START_LIMIT: Duration = Duration::from_secs(90);

/// Whether a server waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// No: the data is thrown away after the tests anyway.
    Discarded,
    /// Yes, as in production: benchmarks and crash tests mean something only so.
    Real,
}

/// The products that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MariaDb,
    /// NATS with JetStream.
    Nats,
    /// RabbitMQ.
    RabbitMq,
    /// Redis.
    Redis,
    /// Chromium behind ChromeDriver.
    Chromium,
}

impl Kind {
    /// Every server that the tests need.
    pub const ALL: &[Self] =
        &[Self::Postgres, Self::MariaDb, Self::Nats, Self::RabbitMq, Self::Redis, Self::Chromium];

    /// The databases that can be a store.
    pub const STORES: &[Self] = &[Self::Postgres, Self::MariaDb];

    fn product(self) -> &'static dyn Product {
        match self {
            Self::Postgres => &postgres::Postgres,
            Self::MariaDb => &mariadb::MariaDb,
            Self::Nats => &nats::Nats,
            Self::RabbitMq => &rabbitmq::RabbitMq,
            Self::Redis => &redis::Redis,
            Self::Chromium => &chromium::Chromium,
        }
    }

    /// The environment variable with the URL of the server that tests share.
    #[must_use]
    pub fn variable(self) -> &'static str {
        self.product().variable()
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

    /// Makes its files, before it is started for the first time.
    fn prepare(&self, _place: &Place<'_>) -> Result<()> {
        Ok(())
    }

    /// Starts it and returns when it accepts connections.
    fn start(&self, place: &Place<'_>) -> Result<(Background, String)>;
}

/// Where and how a server is started.
struct Place<'a> {
    /// The folder with its programs.
    programs: &'a Path,
    /// The folder for its files, owned by `account`.
    home: &'a Path,
    /// The loopback port that it listens on.
    port: u16,
    /// The unprivileged user, when we are root.
    account: Option<&'a Account>,
    durability: Durability,
}

impl Place<'_> {
    /// Starts the program with its output in a log, and returns when it is ready, which may show in
    /// the log.
    fn launch(
        &self,
        command: &mut Command,
        stop: Signal,
        ready: impl Fn(&str) -> bool,
    ) -> Result<Background> {
        let path = self.home.join("server.log");
        let log = fs::File::create(&path).context("cannot create the log")?;
        command.current_dir(self.home).stdout(log.try_clone()?).stderr(log);
        let mut server = Background::start(command, stop)?;
        let read_log = || fs::read_to_string(&path).unwrap_or_default();
        let answered = process::wait_until(START_LIMIT, || {
            Ok(server.exited()?.is_some() || ready(&read_log()))
        })?;
        if !answered || server.exited()?.is_some() {
            bail!("it did not start on port {}; its log says:\n{}", self.port, read_log());
        }
        Ok(server)
    }

    /// A program of this server, run as its user. The kernel sends it the signal when we die.
    fn server(&self, program: &str, stop: &str) -> Command {
        account::server(&self.programs.join(program), self.account, stop)
    }
}

/// The folder of a program: from `PATH`, else from those where packages put it.
fn folder_of(program: &str, packaged: &[&str]) -> Option<PathBuf> {
    let on_path = process::on_path(program).and_then(|path| path.canonicalize().ok());
    let on_path = on_path.and_then(|path| path.parent().map(Path::to_path_buf));
    let mut folders = on_path.into_iter().chain(packaged.iter().map(PathBuf::from));
    folders.find(|folder| folder.join(program).is_file())
}

/// A private server, which a test may kill and start again.
///
/// Fields are dropped in order: first the process ends, then its folder goes.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    process: Option<Background>,
    url: String,
    port: u16,
    programs: PathBuf,
    account: Option<Account>,
    durability: Durability,
    home: TempDir,
}

impl Server {
    /// Finds or installs the product, and starts it.
    ///
    /// # Errors
    /// When it is not there and can not be installed, or does not start.
    pub fn start(kind: Kind, durability: Durability) -> Result<Self> {
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
        let (process, url, port) = (None, String::new(), free_port()?);
        let mut server = Self { kind, process, url, port, programs, account, durability, home };
        product.prepare(&server.place()).with_context(|| server.problem())?;
        server.start_again()?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it without a chance to tidy up, as a crash does. Its files stay.
    pub fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill();
        }
        self.wait_for_silence();
    }

    /// Asks it to end, as an operator does. Its files stay.
    pub fn stop(&mut self) {
        self.process = None;
        self.wait_for_silence();
    }

    /// A process that we did not start ourselves, as the one behind RabbitMQ's script, may take a
    /// moment longer to be gone.
    fn wait_for_silence(&self) {
        let answers = || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
        let _ = process::wait_until(START_LIMIT, || Ok(!answers()));
    }

    /// Starts it after a [`kill`](Self::kill) or [`stop`](Self::stop), on the same port and with
    /// the same files.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_again(&mut self) -> Result<()> {
        let started = self.kind.product().start(&self.place());
        let (process, url) = started.with_context(|| self.problem())?;
        (self.process, self.url) = (Some(process), url);
        Ok(())
    }

    /// The number of its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Background::pid)
    }

    fn place(&self) -> Place<'_> {
        Place {
            programs: &self.programs,
            home: self.home.path(),
            port: self.port,
            account: self.account.as_ref(),
            durability: self.durability,
        }
    }

    fn problem(&self) -> String {
        format!("cannot start {}", self.kind.product().name())
    }
}

/// A server of a run, ours or one that the environment names: that one is not ours to stop.
#[derive(Debug)]
enum Running {
    Own(Server),
    Named { kind: Kind, url: String },
}

impl Running {
    fn kind(&self) -> Kind {
        match self {
            Self::Own(server) => server.kind,
            Self::Named { kind, .. } => *kind,
        }
    }

    fn url(&self) -> &str {
        match self {
            Self::Own(server) => server.url(),
            Self::Named { url, .. } => url,
        }
    }
}

/// The servers of one run; they are stopped when this value goes away.
#[derive(Debug)]
pub struct Servers(Vec<Running>);

impl Servers {
    /// No servers at all.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Makes the servers available: those named in the environment as they are, others started.
    ///
    /// # Errors
    /// See [`Server::start`].
    pub fn start(kinds: &[Kind], durability: Durability) -> Result<Self> {
        let one = |&kind: &Kind| {
            let product = kind.product();
            let Some(url) = url_in_environment(product.variable()) else {
                let server = Server::start(kind, durability)?;
                println!("{}: started a private server", product.name());
                return Ok(Running::Own(server));
            };
            println!("{}: using the server that {} names", product.name(), product.variable());
            Ok(Running::Named { kind, url })
        };
        kinds.iter().map(one).collect::<Result<_>>().map(Self)
    }

    /// Starts servers of our own, whatever the environment says.
    ///
    /// # Errors
    /// See [`Server::start`].
    pub fn start_own(kinds: &[Kind], durability: Durability) -> Result<Self> {
        let one = |&kind: &Kind| Server::start(kind, durability).map(Running::Own);
        kinds.iter().map(one).collect::<Result<_>>().map(Self)
    }

    /// The URL of one server.
    #[must_use]
    pub fn url(&self, kind: Kind) -> Option<&str> {
        self.0.iter().find(|running| running.kind() == kind).map(Running::url)
    }

    /// The environment variables that the tests read.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|running| (running.kind().variable(), running.url()))
    }

    /// Keeps the servers until a signal arrives.
    ///
    /// # Errors
    /// When one of them ends on its own.
    pub fn keep(&mut self) -> Result<()> {
        while !interrupt::requested() {
            if let Some(name) = self.dead()? {
                bail!("{name} ended on its own");
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The name of a server that ended without being asked to.
    fn dead(&mut self) -> Result<Option<&'static str>> {
        for running in &mut self.0 {
            if let Running::Own(Server { kind, process: Some(process), .. }) = running
                && process.exited()?.is_some()
            {
                return Ok(Some(kind.product().name()));
            }
        }
        Ok(None)
    }
}

/// The value of an environment variable that is set and not empty.
#[must_use]
pub fn url_in_environment(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|url| !url.is_empty())
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
///
/// # Errors
/// When we may not, with the command that does it, or when that fails.
pub fn install_packages(name: &str, packages: &[&str]) -> Result<()> {
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
