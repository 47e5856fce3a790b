//! A MySQL or MariaDB server for tests: each has a database of its own. To set one up takes a
//! second there, so they are kept, and lent to one test at a time.

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_core::{Clock, ManualClock, MessageId};
use postroom_stores::{MySqlStore, StoreConfig};
use postroom_testkit::{Harness, Options};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, MySql};
use uuid::Uuid;

/// A database for one test.
pub(crate) struct My {
    pub(crate) store: Arc<MySqlStore>,
    pub(crate) pool: MySqlPool,
    pub(crate) database: String,
    /// Its session has the lock on the database.
    _loan: Option<MySqlConnection>,
}

/// More than tests run at once.
const DATABASES: u32 = 64;

pub(crate) fn server() -> MySqlConnectOptions {
    let url = std::env::var("POSTROOM_TEST_MYSQL_URL")
        .expect("POSTROOM_TEST_MYSQL_URL must name a MySQL or MariaDB server for tests");
    url.parse().expect("POSTROOM_TEST_MYSQL_URL is a URL")
}

/// The URL of one database of the server.
pub(crate) fn url(database: &str) -> String {
    let url = std::env::var("POSTROOM_TEST_MYSQL_URL").expect("POSTROOM_TEST_MYSQL_URL is set");
    let server = url.trim_end_matches('/');
    format!("{server}/{database}")
}

pub(crate) fn pool_for(database: &str) -> MySqlPool {
    MySqlPoolOptions::new().connect_lazy_with(server().database(database))
}

pub(crate) async fn create_database() -> String {
    let database = format!("test_{}", Uuid::new_v4().simple());
    run_on_server(format!("create database {database}")).await;
    database
}

/// A database that no other test uses, and the session that keeps it so.
async fn borrow_database() -> (MySqlConnection, String) {
    let mut session = server().connect().await.expect("the test server answers");
    for number in (0..DATABASES).cycle() {
        let database = format!("postroom_test_{number}");
        let lock = sqlx::query_scalar("select get_lock(?, 0)").bind(&database);
        if lock.fetch_one(&mut session).await.ok() == Some(1_i64) {
            let sql = format!("create database if not exists {database}");
            session.execute(AssertSqlSafe(sql)).await.expect("a database");
            return (session, database);
        }
    }
    unreachable!("it goes around for ever")
}

/// Leaves the tables as a migration makes them.
async fn clean(pool: &MySqlPool) {
    let sql = "select cast(table_name as char) from information_schema.tables
        where table_schema = database() and table_type = 'BASE TABLE'
            and table_name not like '%\\_slot' and table_name <> 'postroom_meta'";
    let tables: Vec<String> = sqlx::query_scalar(sql).fetch_all(pool).await.expect("tables");
    let deletes: Vec<_> = tables.iter().map(|table| format!("delete from {table}")).collect();
    pool.execute(sqlx::raw_sql(AssertSqlSafe(deletes.join("; ")))).await.expect("empty tables");
    run(
        pool,
        "update postroom_outbox_slot set owner = null, locked_until = null;
        update postroom_inbox_slot set owner = null, locked_until = null;
        create table if not exists business (number bigint not null)",
    )
    .await;
}

pub(crate) async fn run_on_server(sql: String) {
    let pool = MySqlPoolOptions::new().max_connections(1).connect_lazy_with(server());
    pool.execute(AssertSqlSafe(sql)).await.expect("the statement of the test");
    pool.close().await;
}

/// Runs statements that are written down in a test.
pub(crate) async fn run(pool: &MySqlPool, sql: &'static str) {
    pool.execute(sqlx::raw_sql(sql)).await.expect("the statement of the test");
}

/// Another handle on the tables of a test.
pub(crate) async fn open(database: &str) -> Arc<MySqlStore> {
    let store = MySqlStore::connect(&url(database), StoreConfig::default()).await;
    Arc::new(store.expect("the test server answers"))
}

impl My {
    pub(crate) async fn with(config: StoreConfig) -> Self {
        let (loan, database) = borrow_database().await;
        let store = MySqlStore::connect(&url(&database), config).await.expect("it answers");
        store.migrate().await.expect("migrates");
        let pool = pool_for(&database);
        clean(&pool).await;
        Self { store: Arc::new(store), pool, database, _loan: Some(loan) }
    }

    /// In another process than the one that has the loan.
    pub(crate) async fn lent(database: &str) -> Self {
        let (store, pool) = (open(database).await, pool_for(database));
        Self { store, pool, database: database.to_owned(), _loan: None }
    }

    pub(crate) async fn on_database_time() -> Self {
        Self::with(StoreConfig::default()).await
    }
}

impl Harness for My {
    type Store = MySqlStore;
    type Plain = PoolConnection<MySql>;

    async fn fresh(clock: ManualClock, options: Options) -> Self {
        Self::with(StoreConfig {
            keep_done: options.keep_done,
            halt: options.halt,
            fair_tenants: options.fair_tenants,
            clock: Clock::Manual(clock),
            ..StoreConfig::default()
        })
        .await
    }

    fn store(&self) -> Arc<MySqlStore> {
        Arc::clone(&self.store)
    }

    async fn connection(&self) -> PoolConnection<MySql> {
        self.pool.acquire().await.expect("a connection")
    }

    async fn begin(&self, conn: &mut MySqlConnection) {
        conn.execute(sqlx::raw_sql("start transaction")).await.expect("begin");
    }

    async fn commit(&self, conn: &mut MySqlConnection) {
        conn.execute(sqlx::raw_sql("commit")).await.expect("commit");
    }

    async fn rollback(&self, conn: &mut MySqlConnection) {
        conn.execute(sqlx::raw_sql("rollback")).await.expect("rollback");
    }

    async fn write_business_row(&self, conn: &mut MySqlConnection, row: i64) {
        let insert = sqlx::query("insert into business values (?)").bind(row);
        insert.execute(conn).await.expect("inside a transaction");
    }

    async fn business_rows(&self) -> Vec<i64> {
        let sql = "select number from business order by number";
        sqlx::query_scalar(sql).fetch_all(&self.pool).await.expect("rows")
    }

    async fn make_undecodable(&self, id: MessageId) {
        let sql = "update postroom_outbox_message set headers = '[1]' where id = ?";
        let update = sqlx::query(sql).bind(id.as_uuid());
        update.execute(&self.pool).await.expect("the message is there");
    }

    async fn finish(self) {
        self.store.close().await;
        self.pool.close().await;
    }
}
