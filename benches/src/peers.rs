//! Other projects on the same machine and server: each is a program of its own in `benches/peers`,
//! which prints one line of JSON.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, PgConnection};

use crate::contest::{Contestant, Measured};
use crate::plan::Plan;
use crate::report::{Role, Series};

/// Where `cargo xtask bench --peers` put the list of them.
const FOLDER: &str = "POSTROOM_BENCH_PEERS";

/// What is published to measure how long messages wait.
const LATENCY: (usize, u64) = (5_000, 1_000);

/// What a peer may take beyond its patience: to fill its tables, mostly.
const BEYOND_PATIENCE: Duration = Duration::from_mins(5);

/// The database that a peer works on.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Database {
    Postgres,
    Sqlite,
}

/// One of the other projects.
#[derive(Debug, Deserialize)]
struct Peer {
    name: String,
    database: Database,
    /// Whether it measures the way from a commit to a handler, too.
    latency: bool,
    command: Option<Vec<PathBuf>>,
    /// Why it could not be installed.
    missing: Option<String>,
}

/// A backlog, drained for as long as it took or as patience lasted.
#[derive(Debug, Deserialize)]
struct Drained {
    version: String,
    settings: String,
    handled: usize,
    #[serde(rename = "seconds", deserialize_with = "seconds")]
    took: Duration,
}

impl Drained {
    fn measured(self, messages: usize) -> Measured {
        let was_stopped = self.handled < messages;
        let (version, settings, handled) = (self.version, self.settings, self.handled);
        let end = if was_stopped { format!("; stopped after {handled}") } else { String::new() };
        Measured {
            values: vec![handled as f64 / self.took.as_secs_f64()],
            note: Some(format!("{version}: {settings}{end}")),
            is_last: was_stopped,
        }
    }
}

/// How long messages waited from the return of COMMIT to the start of the handler.
#[derive(Debug, Deserialize)]
struct Waited {
    version: String,
    settings: String,
    p50_us: u64,
    p99_us: u64,
}

fn seconds<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(serde::de::Error::custom)
}

impl Waited {
    fn measured(self) -> Measured {
        let micros = [self.p50_us, self.p99_us];
        Measured {
            values: micros.map(|micros| micros as f64 / 1e6).into(),
            note: Some(format!("{}: {}", self.version, self.settings)),
            is_last: false,
        }
    }
}

/// Those who drain a backlog. Who needs more than `patience` is stopped, and runs once.
pub(crate) fn drains(
    database: Database,
    url: &str,
    plan: Plan,
    patience: Duration,
) -> anyhow::Result<Vec<Contestant<'_>>> {
    let contestant = |peer: Peer| {
        let (series, peer) = ([Series::new(peer.name.as_str(), Role::Peer)], Arc::new(peer));
        Contestant::new(series, move || {
            let peer = Arc::clone(&peer);
            async move {
                let drained = peer.drain(url, plan.messages, plan.payload, patience).await?;
                Ok(drained.measured(plan.messages))
            }
        })
    };
    Ok(all(database)?.into_iter().map(contestant).collect())
}

/// Those who measure the way from a commit to a handler, with a p50 and a p99 each.
pub(crate) fn latencies(url: &str, plan: Plan) -> anyhow::Result<Vec<Contestant<'_>>> {
    let contestant = |peer: Peer| {
        let series =
            ["p50", "p99"].map(|which| Series::new(peer.name.as_str(), Role::Peer).which(which));
        let peer = Arc::new(peer);
        Contestant::new(series, move || {
            let peer = Arc::clone(&peer);
            async move {
                let (messages, per_second) = LATENCY;
                Ok(peer.latency(url, messages, plan.payload, per_second).await?.measured())
            }
        })
    };
    Ok(all(Database::Postgres)?.into_iter().filter(|peer| peer.latency).map(contestant).collect())
}

/// The peers on one database, also those that could not be installed.
fn all(database: Database) -> anyhow::Result<Vec<Peer>> {
    let folder = std::env::var_os(FOLDER)
        .with_context(|| format!("{FOLDER} is not set; run `cargo xtask bench --peers`"))?;
    let list = File::open(Path::new(&folder).join("peers.json")).context("no list of peers")?;
    let mut peers: Vec<Peer> = serde_json::from_reader(list).context("not a list of peers")?;
    peers.retain(|peer| peer.database == database);
    Ok(peers)
}

impl Peer {
    /// Drains a backlog in a database of its own, on the server at the URL or in a new
    /// file.
    async fn drain(
        &self,
        url: &str,
        messages: usize,
        payload: usize,
        patience: Duration,
    ) -> anyhow::Result<Drained> {
        let place = Place::make(self.database, url).await?;
        let mut command = self.command("drain", &place.url, messages, payload)?;
        let command = command.arg("--patience").arg(patience.as_secs().to_string());
        let drained = self.answer(command, patience);
        place.remove().await?;
        drained
    }

    /// Publishes at a steady rate.
    async fn latency(
        &self,
        url: &str,
        messages: usize,
        payload: usize,
        per_second: u64,
    ) -> anyhow::Result<Waited> {
        let place = Place::make(self.database, url).await?;
        let mut command = self.command("latency", &place.url, messages, payload)?;
        let command = command.arg("--per-second").arg(per_second.to_string());
        let waited = self.answer(command, Duration::from_secs(messages as u64 / per_second.max(1)));
        place.remove().await?;
        waited
    }

    fn command(
        &self,
        job: &str,
        url: &str,
        messages: usize,
        payload: usize,
    ) -> anyhow::Result<Command> {
        let Some([program, arguments @ ..]) = self.command.as_deref() else {
            bail!("not installed: {}", self.missing.as_deref().unwrap_or("no reason given"));
        };
        let mut command = Command::new(program);
        command.args(arguments).args(["--peer", &self.name, "--job", job, "--url", url]);
        command.args(["--messages", &messages.to_string(), "--payload", &payload.to_string()]);
        Ok(command)
    }

    fn answer<T: DeserializeOwned>(
        &self,
        command: &mut Command,
        patience: Duration,
    ) -> anyhow::Result<T> {
        let (mut output, mut errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
        command.stdout(output.try_clone()?).stderr(errors.try_clone()?);
        let status = wait(command, patience + BEYOND_PATIENCE)?;
        let output = read(&mut output)?;
        let answer = output.lines().last().and_then(|line| serde_json::from_str(line).ok());
        match answer.filter(|_| status.success()) {
            Some(answer) => Ok(answer),
            None => bail!("it ended with {status}: {}", one_line(&read(&mut errors)?)),
        }
    }
}

/// A database that one peer has for one run. What it leaves there would be in the way of the next:
/// the server would clean up after it in the background.
struct Place {
    url: String,
    /// The server, or else the folder, that it is in.
    server: Option<PgConnection>,
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    async fn make(database: Database, url: &str) -> anyhow::Result<Self> {
        if database == Database::Sqlite {
            let folder = tempfile::tempdir()?;
            let url = format!("sqlite://{}", folder.path().join("peer.db").display());
            return Ok(Self { url, server: None, _folder: Some(folder) });
        }
        let options: PgConnectOptions = url.parse()?;
        let mut server = PgConnection::connect_with(&options).await?;
        server.execute("set client_min_messages = warning").await?;
        server.execute("drop database if exists postroom_bench_peer with (force)").await?;
        server.execute("create database postroom_bench_peer").await?;
        let mut url = options.database("postroom_bench_peer").to_url_lossy();
        // Not every driver takes the options of ours.
        url.set_query(None);
        Ok(Self { url: url.to_string(), server: Some(server), _folder: None })
    }

    async fn remove(self) -> anyhow::Result<()> {
        if let Some(mut server) = self.server {
            server.execute("drop database postroom_bench_peer with (force)").await?;
        }
        Ok(())
    }
}

fn wait(command: &mut Command, limit: Duration) -> anyhow::Result<ExitStatus> {
    let mut child = command.spawn()?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if began.elapsed() > limit {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn read(file: &mut File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What fits into a report of what a program complained about.
fn one_line(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" | ").chars().take(400).collect()
}
