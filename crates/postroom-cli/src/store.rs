//! Which store the command line means, and when its schema is created.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postroom::store::{AdminStore, BoxFuture, Store, TransactionalStore};
use postroom::{
    Message, MySqlStore, Outbox, PgStore, Published, Queue, Roles, SqliteStore, StoreConfig, mysql,
    postgres, sqlite,
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
        Ok(Self { url: Url::parse(url)?, config })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
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
        Ok(Self { url, config })
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
        self.url.file().is_some_and(|file| !Path::new(file).exists())
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
            let what = format!("there is no database file {file}");
            let next = "`postroom migrate` or `postroom enqueue` creates it; --url names another";
            return Err(Failure::new(Exit::Unavailable, what).next(next));
        }
        match SqliteStore::open(self.url.as_str(), self.config.clone()).await {
            Ok(store) => Ok(OpenStore::sqlite(store)),
            Err(error) => {
                Err(Failure::from(error).next(format!("check {file} and who may write there")))
            }
        }
    }

    async fn connect_server(&self) -> Result<OpenStore, Failure> {
        let (url, config) = (self.url.as_str(), self.config.clone());
        let connecting = async {
            if self.url.kind == Kind::MySql {
                self.probe::<MySqlConnection>().await?;
                let options = url.parse().map_err(|error| self.misunderstood(&error))?;
                return Ok(OpenStore::mysql(MySqlStore::connect(url, config).await?, options));
            }
            self.probe::<PgConnection>().await?;
            let options = url.parse().map_err(|error| self.misunderstood(&error))?;
            Ok(OpenStore::postgres(PgStore::connect(url, config).await?, options))
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected,
            Err(elapsed) => Err(self.away().why(&elapsed)),
        }
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

type PublishAll =
    Box<dyn Fn(Vec<Message>, Ending) -> BoxFuture<'static, postroom::Result<Vec<Published>>>>;

/// A store of whatever kind.
pub(crate) struct OpenStore {
    admin: Arc<dyn AdminStore>,
    enqueue: Box<dyn Fn(Message) -> BoxFuture<'static, postroom::Result<Published>>>,
    publish_all: PublishAll,
    close: BoxFuture<'static, ()>,
    database: Arc<dyn Fn() -> Database + Send + Sync>,
}

impl OpenStore {
    fn sqlite(store: SqliteStore) -> Self {
        let (same, desk) = (store.clone(), store.clone());
        // Readers are many, and there is one writer whoever writes.
        let database = move || Database::new(desk.local().name(), desk.clone());
        Self::new(store, async move { same.close().await }, database)
    }

    fn mysql(store: MySqlStore, options: MySqlConnectOptions) -> Self {
        let (same, desk) = (store.clone(), store.clone());
        let database = move || {
            let pool = MySqlPoolOptions::new()
                .max_connections(ADMIN_CONNECTIONS)
                .acquire_timeout(ADMIN_PATIENCE)
                .connect_lazy_with(options.clone());
            Database::new(desk.local().name(), desk.through(pool))
        };
        Self::new(store, async move { same.close().await }, database)
    }

    fn postgres(store: PgStore, options: PgConnectOptions) -> Self {
        let (same, desk) = (store.clone(), store.clone());
        let database = move || {
            let pool = PgPoolOptions::new()
                .max_connections(ADMIN_CONNECTIONS)
                .acquire_timeout(ADMIN_PATIENCE)
                .connect_lazy_with(options.clone().application_name("postroom admin"));
            Database::new(desk.local().name(), desk.through(pool))
        };
        Self::new(store, async move { same.close().await }, database)
    }

    fn new<S>(
        store: S,
        close: impl Future<Output = ()> + Send + 'static,
        database: impl Fn() -> Database + Send + Sync + 'static,
    ) -> Self
    where
        S: AdminStore + TransactionalStore,
    {
        let store = Arc::new(store);
        let outbox = Outbox::<S>::new(Arc::clone(&store));
        let same = outbox.clone();
        Self {
            admin: store,
            close: Box::pin(close),
            database: Arc::new(database),
            enqueue: Box::new(move |message| {
                let outbox = outbox.clone();
                Box::pin(async move { outbox.publish(message).await })
            }),
            publish_all: Box::new(move |messages, ending| {
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
    pub(crate) async fn close(self) {
        self.close.await;
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
