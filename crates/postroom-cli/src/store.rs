//! Which store the command line means, and when its schema is created.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postroom::fleet::{Home, Opened};
use postroom::store::{AdminStore, BoxFuture, Store, TransactionalStore};
use postroom::{
    Message, MySqlServers, MySqlStore, Outbox, PgServers, PgStore, Published, Queue, Roles,
    SqliteStore, StoreConfig, mysql, postgres, sqlite,
};

use postroom_admin::Database;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, MySqlConnection, PgConnection};

use crate::args;
use crate::failure::{Exit, Failure};
use crate::url::{Kind, Url};

/// How long to wait for a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a dashboard may take of a server's connections, and how long a question waits for one.
const ADMIN_CONNECTIONS: u32 = 4;
const ADMIN_PATIENCE: Duration = Duration::from_secs(5);

/// A database and the names of its tables.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    url: Url,
    config: StoreConfig,
    connections: Connections,
}

/// Where the connections to a store come from.
#[derive(Clone, Debug, Default)]
pub(crate) enum Connections {
    /// It has its own.
    #[default]
    Own,
    /// Those of a server share a budget, and the dashboard has another one.
    Shared(Box<Budgets>),
}

/// Connections per server.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    postgres: [PgServers; 2],
    mysql: [MySqlServers; 2],
}

impl Budgets {
    /// So many for deliveries, and a few for the dashboard.
    pub(crate) fn new(connections: usize, doorbell: Option<&str>) -> postroom::Result<Self> {
        let few = ADMIN_CONNECTIONS as usize;
        let mut postgres = PgServers::new(connections)?;
        if let Some(database) = doorbell {
            postgres = postgres.doorbell(database);
        }
        Ok(Self {
            postgres: [postgres, PgServers::new(few)?],
            mysql: [MySqlServers::new(connections)?, MySqlServers::new(few)?],
        })
    }
}

/// What a command is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Use what is there; a file that does not exist is not created.
    Existing,
    /// Write a message.
    Write,
    /// Migrate, so do not look at the schema yet.
    Migrate,
}

impl Target {
    pub(crate) fn new(args: &args::Target) -> Result<Self, Failure> {
        let config = StoreConfig {
            schema: args.schema.clone(),
            prefix: args.prefix.clone(),
            queue: args.queue.into(),
            ..StoreConfig::default()
        };
        Self::of(&args.url, config)
    }

    pub(crate) fn of(url: &str, config: StoreConfig) -> Result<Self, Failure> {
        config.validate()?;
        Ok(Self { url: Url::parse(url)?, config, connections: Connections::Own })
    }

    #[cfg(test)]
    pub(crate) fn shares_connections(&self) -> bool {
        matches!(self.connections, Connections::Shared(_))
    }

    /// With connections from there.
    pub(crate) fn through(mut self, connections: &Connections) -> Self {
        self.connections.clone_from(connections);
        self
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The other box of the same tables, or the same.
    pub(crate) fn with_queue(&self, queue: Queue) -> Self {
        Self { config: StoreConfig { queue, ..self.config.clone() }, ..self.clone() }
    }

    /// Other tables, of another database if a URL is given.
    pub(crate) fn renamed(&self, url: Option<&str>, schema: &str) -> Result<Self, Failure> {
        let config = StoreConfig {
            schema: schema.to_owned(),
            prefix: String::new(),
            queue: Queue::Outbox,
            ..self.config.clone()
        };
        let url = url.map_or_else(|| Ok(self.url.clone()), Url::parse)?;
        Ok(Self { url, config, ..self.clone() })
    }

    /// The same with the indexes for tenants that take turns, or as it is.
    pub(crate) fn with_fair_tenants(mut self, fair: bool) -> Self {
        self.config.fair_tenants |= fair;
        self
    }

    pub(crate) fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Schema and prefix, checked to be plain names.
    pub(crate) fn names(&self) -> (&str, &str) {
        (&self.config.schema, &self.config.prefix)
    }

    pub(crate) fn queue(&self) -> Queue {
        self.config.queue
    }

    /// Whether it is a file that does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.url.file().is_some_and(|file| !Path::new(&*file).exists())
    }

    pub(crate) fn missing(&self) -> Failure {
        let file = self.url.file().unwrap_or_default();
        Failure::new(Exit::Unavailable, format!("there is no database file {file}"))
    }

    /// The SQL that `migrate` would run on an empty database.
    pub(crate) fn migration_sql(&self) -> Result<String, Failure> {
        Ok(match self.url.kind {
            Kind::Sqlite => sqlite::migration_sql(&self.config)?,
            Kind::Postgres => postgres::migration_sql(&self.config)?,
            Kind::MySql => mysql::migration_sql(&self.config)?,
        })
    }

    /// The SQL that makes roles with the least rights.
    pub(crate) fn roles_sql(&self, roles: &Roles) -> Result<String, Failure> {
        match self.url.kind {
            Kind::Sqlite => {
                let what = "SQLite has no roles: who may write the file may do everything";
                Err(Failure::new(Exit::Invalid, what).next("give --url of a server"))
            }
            Kind::Postgres => Ok(postgres::roles_sql(&self.config, roles)?),
            Kind::MySql => Ok(mysql::roles_sql(&self.config, roles)?),
        }
    }

    /// Opens the store with a schema that fits: an embedded database gets it here, a server never.
    pub(crate) async fn open(&self, access: Access) -> Result<OpenStore, Failure> {
        let store = match self.url.kind {
            Kind::Sqlite => self.open_sqlite(access).await?,
            Kind::Postgres | Kind::MySql => self.connect_server().await?,
        };
        match (access, self.url.kind) {
            (Access::Migrate, _) => {}
            (_, Kind::Sqlite) => _ = store.admin.migrate().await?,
            (_, Kind::Postgres | Kind::MySql) => store.admin.check_schema().await?,
        }
        Ok(store)
    }

    async fn open_sqlite(&self, access: Access) -> Result<OpenStore, Failure> {
        let Some(file) = self.url.file() else {
            return Ok(OpenStore::sqlite(SqliteStore::in_memory(self.config.clone()).await?));
        };
        if access == Access::Existing && self.is_missing() {
            let next = "`postroom migrate` or `postroom enqueue` creates it; --url names another";
            return Err(self.missing().next(next));
        }
        let opened = match &self.connections {
            Connections::Shared(_) if !self.is_missing() => {
                SqliteStore::open_one_of_many(Path::new(&*file), self.config.clone()).await
            }
            _ => SqliteStore::open(self.url.as_str(), self.config.clone()).await,
        };
        match opened {
            Ok(store) => Ok(OpenStore::sqlite(store)),
            Err(error) => {
                Err(Failure::from(error).next(format!("check {file} and who may write there")))
            }
        }
    }

    async fn connect_server(&self) -> Result<OpenStore, Failure> {
        let connecting = async {
            match self.url.kind {
                Kind::MySql => self.probe::<MySqlConnection>().await?,
                Kind::Postgres | Kind::Sqlite => self.probe::<PgConnection>().await?,
            }
            match &self.connections {
                Connections::Own => self.connect_alone().await,
                Connections::Shared(budgets) => self.connect_within(budgets).await,
            }
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected,
            Err(elapsed) => Err(self.away().why(&elapsed)),
        }
    }

    async fn connect_alone(&self) -> Result<OpenStore, Failure> {
        let (url, config) = (self.url.as_str(), self.config.clone());
        if self.url.kind == Kind::MySql {
            let options = url.parse().map_err(|error| self.misunderstood(&error))?;
            return Ok(OpenStore::mysql(MySqlStore::connect(url, config).await?, options));
        }
        let options = url.parse().map_err(|error| self.misunderstood(&error))?;
        Ok(OpenStore::postgres(PgStore::connect(url, config).await?, options))
    }

    async fn connect_within(&self, budgets: &Budgets) -> Result<OpenStore, Failure> {
        let (url, config) = (self.url.as_str(), self.config.clone());
        if self.url.kind == Kind::MySql {
            let [engine, desk] = budgets.mysql.clone();
            let store = engine.connect(url, config).await?;
            let same = store.clone();
            let database = move || Database::new(same.local().name(), desk.through(&same));
            return Ok(OpenStore::new(store, database));
        }
        let [engine, desk] = budgets.postgres.clone();
        let store = engine.connect(url, config).await?;
        let same = store.clone();
        let database = move || Database::new(same.local().name(), desk.through(&same));
        Ok(OpenStore::new(store, database))
    }

    /// One connection by hand: a pool tries a refused one until its patience ends, and then can not
    /// say why.
    async fn probe<C: Connection>(&self) -> Result<(), Failure> {
        match C::connect(self.url.as_str()).await {
            Ok(probe) => _ = probe.close().await,
            Err(sqlx::Error::Io(cause)) => return Err(self.away().why(&cause)),
            Err(cause @ sqlx::Error::Database(_)) => {
                let what = format!("no entry to {}", self.url.shown());
                let next = "check the user, the password and the database name in --url";
                return Err(Failure::new(Exit::Unavailable, what).why(&cause).next(next));
            }
            // The store words all other errors.
            Err(_) => {}
        }
        Ok(())
    }

    fn misunderstood(&self, why: &sqlx::Error) -> Failure {
        let what = format!("the URL {} is not understood", self.url.shown());
        Failure::new(Exit::Invalid, what).why(why)
    }

    fn away(&self) -> Failure {
        let what = format!("no answer from {}", self.url.shown());
        let next = "check that the database runs and that --url points at it";
        Failure::new(Exit::Unavailable, what).next(next)
    }
}

/// The same box of the same database, as far as one can tell from here.
impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        (&self.url, self.names(), self.queue()) == (&other.url, other.names(), other.queue())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queue, url) = (self.config.queue.as_str(), self.url.shown());
        write!(f, "{queue} of {url}, schema {}", self.config.schema)
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Commit,
    /// After the database has said what it would do.
    Rollback,
}

type Answer<T> = BoxFuture<'static, postroom::Result<T>>;
type Enqueue = dyn Fn(Message) -> Answer<Published> + Send + Sync;
type PublishAll = dyn Fn(Vec<Message>, Ending) -> Answer<Vec<Published>> + Send + Sync;

/// A store of whatever kind. Clones share its connections.
#[derive(Clone)]
pub(crate) struct OpenStore {
    admin: Arc<dyn AdminStore>,
    enqueue: Arc<Enqueue>,
    publish_all: Arc<PublishAll>,
    close: Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    database: Arc<dyn Fn() -> Database + Send + Sync>,
    home: Arc<dyn CanBeHome + Send + Sync>,
}

/// A store that can be the home of a fleet.
trait CanBeHome {
    fn as_home(&self, fleet: &str) -> postroom::Result<Arc<dyn Home>>;
}

macro_rules! can_be_home {
    ($($store:ty),*) => {$(
        impl CanBeHome for $store {
            fn as_home(&self, fleet: &str) -> postroom::Result<Arc<dyn Home>> {
                self.home(fleet)
            }
        }
    )*};
}

can_be_home!(SqliteStore, PgStore, MySqlStore);

impl OpenStore {
    fn sqlite(store: SqliteStore) -> Self {
        let desk = store.clone();
        // Readers are many, and there is one writer whoever writes.
        let database = move || Database::new(desk.local().name(), desk.clone());
        Self::new(store, database)
    }

    fn mysql(store: MySqlStore, options: MySqlConnectOptions) -> Self {
        let desk = store.clone();
        let database = move || {
            let pool = MySqlPoolOptions::new()
                .max_connections(ADMIN_CONNECTIONS)
                .acquire_timeout(ADMIN_PATIENCE)
                .connect_lazy_with(options.clone());
            Database::new(desk.local().name(), desk.through(pool))
        };
        Self::new(store, database)
    }

    fn postgres(store: PgStore, options: PgConnectOptions) -> Self {
        let desk = store.clone();
        let database = move || {
            let pool = PgPoolOptions::new()
                .max_connections(ADMIN_CONNECTIONS)
                .acquire_timeout(ADMIN_PATIENCE)
                .connect_lazy_with(options.clone().application_name("postroom admin"));
            Database::new(desk.local().name(), desk.through(pool))
        };
        Self::new(store, database)
    }

    fn new<S>(store: S, database: impl Fn() -> Database + Send + Sync + 'static) -> Self
    where
        S: AdminStore + TransactionalStore + Opened + CanBeHome,
    {
        let home = store.clone();
        let (store, closing) = (Arc::new(store.clone()), store);
        let outbox = Outbox::<S>::new(Arc::clone(&store));
        let same = outbox.clone();
        Self {
            admin: store,
            close: Arc::new(move || {
                let store = closing.clone();
                Box::pin(async move { Opened::close(&store).await })
            }),
            database: Arc::new(database),
            home: Arc::new(home),
            enqueue: Arc::new(move |message| {
                let outbox = outbox.clone();
                Box::pin(async move { outbox.publish(message).await })
            }),
            publish_all: Arc::new(move |messages, ending| {
                let outbox = same.clone();
                Box::pin(async move { publish_all(&outbox, messages, ending).await })
            }),
        }
    }

    /// The database for a dashboard, with connections of its own. Call what this gives on the
    /// runtime that they are for.
    pub(crate) fn database(&self) -> Box<dyn FnOnce() -> Database + Send> {
        let database = Arc::clone(&self.database);
        Box::new(move || database())
    }

    /// The place where the processes of a fleet divide its stores.
    pub(crate) fn home(&self, fleet: &str) -> postroom::Result<Arc<dyn Home>> {
        self.home.as_home(fleet)
    }

    /// The engine's half, for a dispatcher.
    pub(crate) fn engine(&self) -> Arc<dyn Store> {
        Arc::clone(&self.admin) as Arc<dyn Store>
    }

    pub(crate) fn admin(&self) -> &dyn AdminStore {
        &*self.admin
    }

    /// Writes a message in a transaction of its own.
    pub(crate) async fn enqueue(&self, message: Message) -> postroom::Result<Published> {
        (self.enqueue)(message).await
    }

    /// Writes messages in one transaction, or finds out what writing them would do.
    pub(crate) async fn publish_all(
        &self,
        messages: Vec<Message>,
        ending: Ending,
    ) -> postroom::Result<Vec<Published>> {
        (self.publish_all)(messages, ending).await
    }

    /// Ends it well: other processes are told of what was written, before this one is gone.
    pub(crate) async fn close(&self) {
        (self.close)().await;
    }

    /// Whether both are the same handle.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.admin, &other.admin)
    }
}

impl Opened for OpenStore {
    fn store(&self) -> Arc<dyn Store> {
        self.engine()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}

async fn publish_all<S: TransactionalStore>(
    outbox: &Outbox<S>,
    messages: Vec<Message>,
    ending: Ending,
) -> postroom::Result<Vec<Published>> {
    if ending == Ending::Commit {
        return outbox.publish_all(messages).await;
    }
    let mut tx = outbox.begin().await?;
    for message in messages {
        tx.publish(message)?;
    }
    let published = tx.flush().await.map(<[_]>::to_vec);
    tx.rollback().await?;
    published
}
