//! Servers with many databases.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use postroom_core::Result;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Postgres, SqlSafeStr as _};

use super::classify::classify;
use super::door::Door;
use super::session::Sessions;
use super::statements::NOTIFY;
use super::{PgStore, Way};
use crate::StoreConfig;
use crate::budget::{Budget, Budgets, PATIENCE, Use};

/// Connects to databases of PostgreSQL servers, with a limit on the connections to each server.
/// Cheap to clone; clones share the limit.
///
/// A store that is opened with [`PgStore::connect`] has pools of its own, which is what you want
/// for a few of them. Hundreds would keep hundreds of connections. Stores that are opened here
/// share those of their server: when all are in use, the next call waits for one; when some are
/// idle, the one that was not used for longest makes way. Two servers are the same when host and
/// port are.
///
/// They hear of commits in other processes only with a [`doorbell`](Self::doorbell); else they
/// poll.
///
/// ```no_run
/// # async fn open() -> postroom_core::Result<()> {
/// use postroom_stores::{PgServers, StoreConfig};
///
/// let servers = PgServers::new(20)?.doorbell("postgres");
/// let acme = servers.connect("postgres://relay@db/acme", StoreConfig::default()).await?;
/// let globex = servers.connect("postgres://relay@db/globex", StoreConfig::default()).await?;
/// # drop((acme, globex));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PgServers {
    budgets: Arc<Budgets<Postgres>>,
    doorbell: Option<Arc<str>>,
    doors: Arc<Mutex<HashMap<String, Arc<Door>>>>,
}

impl PgServers {
    /// At most so many connections to each server: a tenth, but one at least, is for renewing
    /// leases, of the others the application's transactions have half at most. A doorbell is one
    /// more.
    ///
    /// # Errors
    /// `Invalid` for fewer than 3 or more than 10,000.
    pub fn new(connections: usize) -> Result<Self> {
        let budgets = Arc::new(Budgets::new(connections)?);
        Ok(Self { budgets, doorbell: None, doors: Arc::default() })
    }

    /// A database on each server in which processes tell each other of commits in all the others,
    /// as the same user as in the first of those. Every process that publishes must name the same
    /// one; it needs no tables, only that all may connect to it.
    #[must_use]
    pub fn doorbell(mut self, database: &str) -> Self {
        self.doorbell = Some(database.into());
        self
    }

    /// Connects to a database, as [`PgStore::connect`] does.
    ///
    /// # Errors
    /// As [`PgStore::connect`].
    pub async fn connect(&self, url: &str, config: StoreConfig) -> Result<PgStore> {
        let names = config.names()?;
        let options: PgConnectOptions = url.parse().map_err(|error| classify("connect", error))?;
        let server = server_of(&options);
        let budget = self.budgets.of(server.clone());
        let way = match self.door(server, &options, &budget) {
            Some(door) => {
                let database = options.get_database().unwrap_or(options.get_username());
                Way::Door { door, database: database.to_owned() }
            }
            None => Way::Poll,
        };
        let sessions = Sessions::connect(options, Some(&budget)).await?;
        Ok(PgStore::with(sessions, way, names, config))
    }

    /// The same box through connections of these servers, for work that must not take the engine's,
    /// such as an admin API. It shares wake-ups and figures with the given one, and connects when
    /// it is first used. [Close](PgStore::close) both.
    #[must_use]
    pub fn through(&self, store: &PgStore) -> PgStore {
        let options = store.sessions.options();
        let budget = self.budgets.of(server_of(&options));
        store.on(Sessions::lazy(options, Some(&budget)))
    }

    fn door(
        &self,
        server: String,
        options: &PgConnectOptions,
        budget: &Budget<Postgres>,
    ) -> Option<Arc<Door>> {
        let database = self.doorbell.as_deref()?;
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let door = doors.entry(server).or_insert_with(|| {
            let options = options.clone().database(database).application_name("postroom");
            let pool = PgPoolOptions::new().acquire_timeout(PATIENCE).connect_lazy_with(options);
            Arc::new(Door::new(budget.pool(pool, Use::Engine), NOTIFY.into_sql_str()))
        });
        Some(Arc::clone(door))
    }
}

impl fmt::Debug for PgServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgServers").field("doorbell", &self.doorbell).finish_non_exhaustive()
    }
}

/// Where it is. Another user has the same connections: they are the server's to give.
fn server_of(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => format!("{}:{}", socket.display(), options.get_port()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}
