//! One process of the fleet that is measured: it says what it serves and what it delivered.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use postroom_core::fleet::{
    Discovery, Fleet, FleetConfig, Home, Listed, MemberState, Opened, StoreId, Stores,
};
use postroom_core::store::{AdminStore as _, BoxFuture};
use postroom_core::{Delivery, Error, ErrorKind, Handlers, Result};
use postroom_stores::fleet::SqliteFolder;
use postroom_stores::{PgServers, PgStore, SqliteStore, StoreConfig};
use serde::{Deserialize, Serialize};

/// What a process is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Serves the databases that a file lists, a URL per line after its id.
    Postgres {
        list: PathBuf,
        home: String,
        name: String,
        doorbell: Option<String>,
        connections: usize,
    },
    /// Serves the files of a folder.
    Sqlite { folder: PathBuf, home: PathBuf },
}

/// The lines of a file.
#[derive(Clone, Debug)]
struct Lines(PathBuf);

impl Discovery<String> for Lines {
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Listed<String>>>> {
        Box::pin(std::future::ready(read(&self.0)))
    }
}

fn read(path: &Path) -> Result<Vec<Listed<String>>> {
    let text = fs::read_to_string(path)
        .map_err(|error| Error::new(ErrorKind::Unavailable, "no list").with_source(error))?;
    let line = |line: &str| {
        let (id, url) = line.split_once(' ')?;
        Some(Listed::new(StoreId::new(id).ok()?, url.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Serves until it is killed.
pub(super) async fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Postgres { list, home, name, doorbell, connections } => {
            let home = PgStore::connect(&home, StoreConfig::default()).await?.home(&name)?;
            let mut servers = PgServers::new(connections)?;
            if let Some(database) = doorbell {
                servers = servers.doorbell(&database);
            }
            let open = move |listed: Listed<String>| -> BoxFuture<'static, Result<PgStore>> {
                let servers = servers.clone();
                Box::pin(async move {
                    let name = Some(listed.id.as_str().to_owned());
                    let config = StoreConfig { name, ..StoreConfig::default() };
                    servers.connect(&listed.place, config).await
                })
            };
            serve(Stores::new(Lines(list), open), home).await
        }
        Task::Sqlite { folder, home } => {
            let path = home.to_str().context("a plain path")?;
            let home = SqliteStore::open(path, StoreConfig::default()).await?;
            home.migrate().await?;
            let files = SqliteFolder::new(folder, StoreConfig::default());
            serve(Stores::new(files.clone(), files), home.home("bench")?).await
        }
    }
}

async fn serve<P, O>(stores: Stores<P, O>, home: Arc<dyn Home>) -> anyhow::Result<()>
where
    P: Clone + PartialEq + Send + Sync + 'static,
    O: Opened,
{
    let handlers = Handlers::new().all(|delivery: Delivery| {
        say(&format!("delivered {}", delivery.message().id()));
        async { Ok(()) }
    });
    let config = FleetConfig { refresh: Duration::from_secs(5), ..FleetConfig::default() };
    let fleet = Fleet::new(stores, handlers).home(home).config(config).start()?;
    let mut before = None;
    loop {
        let members = fleet.members();
        let serving = members.iter().filter(|one| one.state == MemberState::Serving).count();
        if before.replace(serving) != Some(serving) {
            say(&format!("serving {serving}"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
