//! Servers with many databases.

use std::fmt;
use std::sync::Arc;

use postroom_core::Result;
use sqlx::MySql;
use sqlx::mysql::MySqlConnectOptions;

use super::classify::classify;
use super::session::Sessions;
use super::{MySqlStore, short_names};
use crate::StoreConfig;
use crate::budget::Budgets;

/// Connects to databases of MySQL and MariaDB servers, with a limit on the connections to each
/// server. Cheap to clone; clones share the limit.
///
/// A store that is opened with [`MySqlStore::connect`] has pools of its own, which is what you want
/// for a few of them. Hundreds would keep hundreds of connections. Stores that are opened here
/// share those of their server: when all are in use, the next call waits for one; when some are
/// idle, the one that was not used for longest makes way. Two servers are the same when host and
/// port are.
///
/// ```no_run
/// # async fn open() -> postroom_core::Result<()> {
/// use postroom_stores::{MySqlServers, StoreConfig};
///
/// let servers = MySqlServers::new(20)?;
/// let acme = servers.connect("mysql://relay@db/acme", StoreConfig::default()).await?;
/// let globex = servers.connect("mysql://relay@db/globex", StoreConfig::default()).await?;
/// # drop((acme, globex));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MySqlServers {
    budgets: Arc<Budgets<MySql>>,
}

impl MySqlServers {
    /// At most so many connections to each server: a tenth, but one at least, is for renewing
    /// leases, of the others the application's transactions have half at most.
    ///
    /// # Errors
    /// `Invalid` for fewer than 3 or more than 10,000.
    pub fn new(connections: usize) -> Result<Self> {
        Ok(Self { budgets: Arc::new(Budgets::new(connections)?) })
    }

    /// Connects to a database, as [`MySqlStore::connect`] does.
    ///
    /// # Errors
    /// As [`MySqlStore::connect`].
    pub async fn connect(&self, url: &str, config: StoreConfig) -> Result<MySqlStore> {
        let names = short_names(&config)?;
        let options: MySqlConnectOptions =
            url.parse().map_err(|error| classify("connect", error))?;
        let budget = self.budgets.of(server_of(&options));
        let sessions = Sessions::connect(options, Some(&budget)).await?;
        Ok(MySqlStore::with(sessions, names, config))
    }

    /// The same box through connections of these servers, for work that must not take the engine's,
    /// such as an admin API. It shares wake-ups and figures with the given one, and connects when
    /// it is first used. [Close](MySqlStore::close) both.
    #[must_use]
    pub fn through(&self, store: &MySqlStore) -> MySqlStore {
        let options = store.sessions.options();
        let budget = self.budgets.of(server_of(&options));
        store.on(Sessions::lazy(options, Some(&budget)))
    }
}

impl fmt::Debug for MySqlServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlServers").finish_non_exhaustive()
    }
}

/// Where it is. Another user has the same connections: they are the server's to give.
fn server_of(options: &MySqlConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}
