//! SQLite: the embedded default. One file, one writer at a time, no set-up.
//!
//! Writes go through a pool of one connection and begin with `BEGIN IMMEDIATE`, so that tasks of
//! one process queue up instead of meeting `SQLITE_BUSY`; other processes are waited for. Reads
//! have connections of their own (WAL). A store in memory is exactly one connection for everything.

mod admin;
mod append;
mod claim;
mod classify;
mod control;
mod first;
#[doc(hidden)]
pub mod foreign;
mod home;
mod incoming;
mod join;
mod lease;
mod look;
mod migrate;
mod order;
mod purge;
mod settle;
mod sql;
mod tenants;
mod tx;
mod values;
mod watch;

use std::fs::Metadata;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    Appended, Attach, BoxFuture, Claim, Claimed, Entry, Heartbeat, Local, Paused, Purge, Purged,
    Reaped, Settled, Store, TransactionalStore,
};
use postroom_core::{Error, ErrorKind, Join, Lease, OwnerToken, Result, Timestamp};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{Sqlite, Transaction};

use crate::config::StoreConfig;
use crate::names::Queue;
use classify::{classify, is_locked};
pub use migrate::migration_sql;
use order::Turn;
use sql::Statements;
pub use tx::SqliteTx;
use watch::{Watch, Writers};

/// One box in a SQLite database. Clones share it.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    writer: SqlitePool,
    reader: SqlitePool,
    /// How a writing transaction begins, unless plainly.
    begin: Option<&'static str>,
    sql: Statements,
    config: StoreConfig,
    turn: Mutex<Turn>,
    local: Arc<Local>,
    /// That of the outbox, into which joins publish; in an outbox its own.
    outbox_local: Arc<Local>,
    /// For a file, to which other processes may write.
    watch: Option<Watch>,
    /// The other box, once somebody asked for it.
    inbox: OnceLock<SqliteStore>,
}

impl SqliteStore {
    /// Opens a file, creating it when it is missing: a path, or a URL such as `sqlite:orders.db`.
    /// `sqlite::memory:` is a store in memory. The schema is not touched; see
    /// [`migrate`](postroom_core::store::AdminStore::migrate).
    ///
    /// # Errors
    /// `Invalid` for a bad URL or configuration, `Unavailable` when the file can not be opened.
    pub async fn open(path: &str, config: StoreConfig) -> Result<Self> {
        let url =
            if path.starts_with("sqlite:") { path.to_owned() } else { format!("sqlite:{path}") };
        if url.contains(":memory:") {
            return Self::in_memory(config).await;
        }
        let options = SqliteConnectOptions::from_str(&url).map_err(|source| {
            Error::new(ErrorKind::Invalid, format!("{path:?} is not a SQLite URL or path"))
                .with_source(source)
        })?;
        let options = options.create_if_missing(true).synchronous(SqliteSynchronous::Normal);
        Self::open_with(options.busy_timeout(BUSY_TIMEOUT), config).await
    }

    /// Opens a file with options of your own, such as `synchronous(SqliteSynchronous::Full)` for
    /// commits that survive a power failure. WAL is always set.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(options: SqliteConnectOptions, config: StoreConfig) -> Result<Self> {
        Self::open_keeping(options, config, pool).await
    }

    /// Opens one of many files, which must exist: a connection that has nothing to do for a few
    /// seconds is closed, so that hundreds of files that are idle cost nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_one_of_many(file: &Path, config: StoreConfig) -> Result<Self> {
        // A tenant that is gone must not come back empty.
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(false);
        let options = options.synchronous(SqliteSynchronous::Normal).busy_timeout(BUSY_TIMEOUT);
        let few = |connections: u32| pool(connections.min(2)).idle_timeout(IDLE);
        Self::open_keeping(options, config, few).await
    }

    async fn open_keeping(
        options: SqliteConnectOptions,
        config: StoreConfig,
        pool: impl Fn(u32) -> SqlitePoolOptions,
    ) -> Result<Self> {
        let options = options.journal_mode(SqliteJournalMode::Wal);
        let writers = Writers::default();
        let one = || {
            let writers = writers.clone();
            pool(1).after_connect(move |_, _| {
                writers.add();
                Box::pin(std::future::ready(Ok(())))
            })
        };
        let writer = connect_writer(&options, one).await?;
        let watch = Watch::of(options.get_filename(), writers);
        let file = options.get_filename().file_stem().map(|stem| stem.display().to_string());
        let reader = pool(4).connect_lazy_with(options.read_only(true).create_if_missing(false));
        let mut inner = Inner::new(writer, reader, config, file.as_deref())?;
        inner.begin = Some("begin immediate");
        inner.watch = Some(watch);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A store that lives as long as this value: for tests and trials.
    ///
    /// # Errors
    /// `Invalid` for a bad configuration.
    pub async fn in_memory(config: StoreConfig) -> Result<Self> {
        let options = SqliteConnectOptions::from_str("sqlite::memory:").map_err(classify)?;
        let one = pool(1).min_connections(1).idle_timeout(None).max_lifetime(None);
        let only = one.connect_with(options).await.map_err(classify)?;
        // The only connection can not be replaced, so it must begin in whatever state it is: a
        // plain begin is a savepoint to a driver that believes in an older transaction, and that
        // opens one.
        let inner = Inner::new(only.clone(), only, config, Some("memory"))?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The pool that writes: one connection. Use it for your own tables in the same file, or begin
    /// through [`Outbox::begin`](postroom_core::Outbox::begin), which does.
    #[must_use]
    pub fn writer(&self) -> &SqlitePool {
        &self.inner.writer
    }

    /// Closes all connections, waiting for the calls that use them.
    pub async fn close(&self) {
        self.inner.reader.close().await;
        self.inner.writer.close().await;
    }

    fn sql(&self) -> &Statements {
        &self.inner.sql
    }

    /// The host's time: SQLite has no clock of its own. Read it inside a transaction, after the
    /// wait for the lock.
    fn now(&self) -> Timestamp {
        self.inner.config.clock.now()
    }

    /// A file may have several names: it is what they lead to.
    fn find_identity(&self) -> Result<String> {
        let label = self.inner.config.names()?.label();
        if self.inner.watch.is_none() {
            return Ok(format!("memory {:p} {label}", Arc::as_ptr(&self.inner.outbox_local)));
        }
        let options = self.inner.writer.connect_options();
        let file = options.get_filename();
        let about = std::fs::metadata(file).map_err(|error| {
            let what = format!("there is no database file {}", file.display());
            Error::new(ErrorKind::Unavailable, what).with_source(error)
        })?;
        Ok(format!("file {} {label}", identity_of(file, &about)))
    }

    async fn begin_write(&self) -> Result<Transaction<'static, Sqlite>> {
        let tx = match self.inner.begin {
            Some(begin) => self.inner.writer.begin_with(begin).await,
            None => self.inner.writer.begin().await,
        };
        tx.map_err(classify)
    }
}

impl Inner {
    /// As in memory: a plain begin, and nobody else to watch.
    fn new(
        writer: SqlitePool,
        reader: SqlitePool,
        config: StoreConfig,
        file: Option<&str>,
    ) -> Result<Self> {
        let sql = Statements::new(&config.names()?);
        let (turn, local) = (Mutex::default(), Arc::new(config.local(file)));
        let outbox_local = Arc::clone(&local);
        let (begin, watch, inbox) = (None, None, OnceLock::new());
        Ok(Self { writer, reader, begin, sql, config, turn, local, outbox_local, watch, inbox })
    }

    /// The inbox on the same connections.
    fn sibling(&self) -> Self {
        let name = Some(self.local.name().to_owned());
        let config = StoreConfig { name, queue: Queue::Inbox, ..self.config.clone() };
        let (writer, reader) = (self.writer.clone(), self.reader.clone());
        let mut inner = Self::new(writer, reader, config, None).expect("the names were checked");
        inner.begin = self.begin;
        inner.outbox_local = Arc::clone(&self.outbox_local);
        inner.watch = self.watch.as_ref().map(Watch::again);
        inner
    }
}

// How long a statement waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

// Of a connection to one of many files.
const IDLE: Duration = Duration::from_secs(2);

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new().max_connections(connections).acquire_timeout(Duration::from_secs(30))
}

/// Several processes that open a new file at once all set its journal mode, and SQLite does not
/// wait for its turn there as it does everywhere else.
async fn connect_writer(
    options: &SqliteConnectOptions,
    pool: impl Fn() -> SqlitePoolOptions,
) -> Result<SqlitePool> {
    let patience = Instant::now() + BUSY_TIMEOUT;
    loop {
        let fit_only = pool().after_release(|conn, _| Box::pin(tx::is_fit(conn)));
        match fit_only.connect_with(options.clone()).await {
            Err(error) if is_locked(&error) && Instant::now() < patience => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            answer => return answer.map_err(classify),
        }
    }
}

#[cfg(unix)]
fn identity_of(_file: &Path, about: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt as _;
    format!("{}:{}", about.dev(), about.ino())
}

#[cfg(not(unix))]
fn identity_of(file: &Path, _about: &Metadata) -> String {
    file.canonicalize().unwrap_or_else(|_| file.to_owned()).display().to_string()
}

/// Ends a transaction of the engine, which can be tried again whatever became of it.
async fn commit(tx: Transaction<'static, Sqlite>) -> Result<()> {
    tx.commit().await.map_err(classify)
}

impl Store for SqliteStore {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(self.do_claim(claim))
    }

    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(self.do_settle(owner, items))
    }

    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(self.do_renew(owner, leases, lease))
    }

    fn reap(&self, limit: u32, max_attempts: u32) -> BoxFuture<'_, Result<Reaped>> {
        Box::pin(self.do_reap(limit, max_attempts))
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        Box::pin(self.do_purge(purge))
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.do_leave(owner))
    }

    fn report<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.do_report(heartbeat))
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        Box::pin(self.look_for_pauses())
    }

    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(self.look_for_due())
    }

    fn identity(&self) -> BoxFuture<'_, Result<String>> {
        Box::pin(std::future::ready(self.find_identity()))
    }

    fn halts(&self) -> bool {
        self.inner.config.halt
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        let Inner { local, watch: Some(watch), writer, sql, .. } = &*self.inner else {
            return Box::pin(self.inner.local.woken());
        };
        Box::pin(async move {
            tokio::select! {
                biased;
                () = local.woken() => {}
                () = watch.changed(writer, &sql.data_version, local) => {}
            }
        })
    }

    fn local(&self) -> &Local {
        &self.inner.local
    }
}

impl TransactionalStore for SqliteStore {
    type Conn = SqliteConnection;
    type Tx = SqliteTx<'static>;

    async fn begin(&self) -> Result<SqliteTx<'static>> {
        SqliteTx::adopt(self.begin_write().await?).await
    }

    async fn require_transaction(&self, conn: &mut SqliteConnection) -> Result<()> {
        tx::require_transaction(conn).await
    }

    async fn append(
        &self,
        conn: &mut SqliteConnection,
        entries: &[Entry],
    ) -> Result<Vec<Appended>> {
        append::append(self.sql(), conn, entries, self.now()).await
    }

    fn inbox(&self) -> Self {
        match self.inner.config.queue {
            Queue::Inbox => self.clone(),
            Queue::Outbox => {
                let sibling = || Self { inner: Arc::new(self.inner.sibling()) };
                self.inner.inbox.get_or_init(sibling).clone()
            }
        }
    }

    async fn admit(&self, conn: &mut SqliteConnection, key: [u8; 32]) -> Result<bool> {
        append::admit(self.sql(), conn, key, self.now()).await
    }

    async fn settle_in(
        &self,
        conn: &mut SqliteConnection,
        owner: OwnerToken,
        lease: Lease,
    ) -> Result<bool> {
        let items = [(lease, Settlement::Done)];
        Ok(self.settle_on(conn, owner, &items).await?.applied == 1)
    }

    async fn start_join(&self, conn: &mut SqliteConnection, join: &Join) -> Result<bool> {
        self.begin_join(conn, join).await
    }

    async fn attach(&self, conn: &mut SqliteConnection, attaches: &[Attach]) -> Result<()> {
        self.attach_members(conn, attaches).await
    }
}
