//! A schema of its own for each test, as one of the roles sees it.

use std::marker::PhantomData;
use std::sync::Arc;

use postroom_core::{Clock, ManualClock, MessageId};
use postroom_stores::postgres::roles_sql;
use postroom_stores::{PgStore, Roles, StoreConfig};
use postroom_testkit::{Harness, Options};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor, Postgres};

use crate::postgres_support::{Pg, fresh_schema, url};

/// A role that a test works as.
pub(crate) trait Who: Send + Sync + 'static {
    const ROLE: &'static str;
}

/// Publishes by function.
#[derive(Debug)]
pub(crate) struct Producer;
/// Runs a dispatcher.
#[derive(Debug)]
pub(crate) struct Worker;
/// Helps.
#[derive(Debug)]
pub(crate) struct Admin;
/// Looks.
#[derive(Debug)]
pub(crate) struct Reader;

impl Who for Producer {
    const ROLE: &'static str = "postroom_test_producer";
}
impl Who for Worker {
    const ROLE: &'static str = "postroom_test_worker";
}
impl Who for Admin {
    const ROLE: &'static str = "postroom_test_admin";
}
impl Who for Reader {
    const ROLE: &'static str = "postroom_test_reader";
}

/// The roles of the tests; a server has them once for all its databases.
pub(crate) fn roles() -> Roles {
    Roles {
        producer: Producer::ROLE.to_owned(),
        worker: Worker::ROLE.to_owned(),
        admin: Admin::ROLE.to_owned(),
        reader: Reader::ROLE.to_owned(),
    }
}

/// Runs the script of the roles as the owner.
pub(crate) async fn give_rights(owner: &PgPool, config: &StoreConfig) {
    let script = roles_sql(config, &roles()).expect("legal names");
    owner.execute(sqlx::raw_sql(AssertSqlSafe(script))).await.expect("the script of the roles");
}

/// A store in sessions of a role, beside the one of its owner.
#[derive(Debug)]
pub(crate) struct As<W> {
    pub(crate) owner: Owner,
    pub(crate) store: Arc<PgStore>,
    /// Sessions of the role, with the tables in their search path.
    pub(crate) pool: PgPool,
    who: PhantomData<W>,
}

/// The owner's view.
pub(crate) struct Owner(pub(crate) Pg);

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.schema)
    }
}

impl<W: Who> As<W> {
    pub(crate) async fn with(config: StoreConfig) -> Self {
        let owner = Pg::with(config.clone()).await;
        give_rights(&owner.pool, &config).await;
        Self::beside(owner, config).await
    }

    async fn beside(owner: Pg, config: StoreConfig) -> Self {
        let allow = format!("grant all on business to {}", W::ROLE);
        owner.pool.execute(AssertSqlSafe(allow)).await.expect("a grant");
        let options: PgConnectOptions = url().parse().expect("POSTROOM_TEST_PG_URL is a URL");
        let settings = [("role", W::ROLE), ("search_path", config.schema.as_str())];
        let pool = PgPoolOptions::new().connect_lazy_with(options.options(settings));
        let store = PgStore::connect(&url_as(W::ROLE), config).await.expect("connects");
        Self { owner: Owner(owner), store: Arc::new(store), pool, who: PhantomData }
    }

    pub(crate) async fn on_database_time() -> Self {
        Self::with(StoreConfig { schema: fresh_schema(), ..StoreConfig::default() }).await
    }

    pub(crate) fn schema(&self) -> &str {
        &self.owner.0.schema
    }
}

/// The test server's URL for sessions that begin as this role.
pub(crate) fn url_as(role: &str) -> String {
    let url = url();
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}options=-c%20role%3D{role}")
}

impl<W: Who> Harness for As<W> {
    type Store = PgStore;
    type Plain = PoolConnection<Postgres>;

    async fn fresh(clock: ManualClock, options: Options) -> Self {
        let config = StoreConfig {
            keep_done: options.keep_done,
            halt: options.halt,
            clock: Clock::Manual(clock),
            ..StoreConfig::default()
        };
        let (owner, is_new) = Pg::lent("roles", config.clone()).await;
        let config = StoreConfig { schema: owner.schema.clone(), ..config };
        if is_new {
            give_rights(&owner.pool, &config).await;
        }
        Self::beside(owner, config).await
    }

    fn store(&self) -> Arc<PgStore> {
        Arc::clone(&self.store)
    }

    async fn connection(&self) -> PoolConnection<Postgres> {
        self.pool.acquire().await.expect("a connection")
    }

    async fn begin(&self, conn: &mut PgConnection) {
        self.owner.0.begin(conn).await;
    }

    async fn commit(&self, conn: &mut PgConnection) {
        self.owner.0.commit(conn).await;
    }

    async fn rollback(&self, conn: &mut PgConnection) {
        self.owner.0.rollback(conn).await;
    }

    async fn write_business_row(&self, conn: &mut PgConnection, row: i64) {
        self.owner.0.write_business_row(conn, row).await;
    }

    async fn business_rows(&self) -> Vec<i64> {
        self.owner.0.business_rows().await
    }

    async fn make_undecodable(&self, id: MessageId) {
        self.owner.0.make_undecodable(id).await;
    }

    async fn finish(self) {
        self.owner.0.finish().await;
    }
}
