//! A schema of its own for each test, in the database that `POSTROOM_TEST_PG_URL` names. To set one
//! up takes a third of a second, so the suite keeps some, and lends each to one test at a time.

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_core::{Clock, ManualClock, MessageId};
use postroom_stores::{PgStore, StoreConfig, postgres};
use postroom_testkit::{Harness, Options};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection as _, Executor, Postgres};
use uuid::Uuid;

pub(crate) struct Pg {
    pub(crate) store: Arc<PgStore>,
    /// The tables of the test are in its search path.
    pub(crate) pool: PgPool,
    pub(crate) schema: String,
    /// Its session has the lock on a schema that is lent.
    pub(crate) loan: Option<PgConnection>,
}

/// More than tests run at once.
const SCHEMAS: u32 = 64;

/// Leaves the tables as a migration makes them.
const CLEAN: &str = "do $$ declare name regclass; begin
    for name in
        select oid from pg_class
        where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
            and not relispartition and relname not like '%\\_slot' and relname <> 'meta'
    loop
        execute format('delete from %s', name);
    end loop;
    update outbox_slot set owner = null, locked_until = null where owner is not null;
    update inbox_slot set owner = null, locked_until = null where owner is not null;
end $$";

pub(crate) fn url() -> String {
    std::env::var("POSTROOM_TEST_PG_URL")
        .expect("POSTROOM_TEST_PG_URL must name a PostgreSQL database for tests")
}

pub(crate) fn fresh_schema() -> String {
    format!("test_{}", Uuid::new_v4().simple())
}

/// A pool whose sessions find the tables of `schema` by their bare names.
pub(crate) fn pool_for(schema: &str) -> PgPool {
    let options: PgConnectOptions = url().parse().expect("POSTROOM_TEST_PG_URL is a URL");
    PgPoolOptions::new().connect_lazy_with(options.options([("search_path", schema)]))
}

/// Runs statements that are written down in a test.
pub(crate) async fn run(pool: &PgPool, sql: &'static str) {
    pool.execute(sqlx::raw_sql(sql)).await.expect("the statement of the test");
}

/// Drops the schema in the search path.
pub(crate) async fn drop_schema(pool: &PgPool) {
    let sql = "do $$ begin
        set client_min_messages = warning;
        execute format('drop schema if exists %I cascade', current_setting('search_path'));
    end $$";
    run(pool, sql).await;
}

/// A schema that no other test uses, and the session that keeps it so. Its name says what it was
/// made from: what another version left behind is not taken.
async fn borrow_schema(purpose: &str) -> (PgConnection, String) {
    let config = StoreConfig { fair_tenants: true, ..StoreConfig::default() };
    let script = postgres::migration_sql(&config).expect("legal names");
    let version = Uuid::new_v5(&Uuid::NAMESPACE_OID, script.as_bytes()).simple().to_string();
    let mut session = PgConnection::connect(&url()).await.expect("the test server answers");
    for number in (0..SCHEMAS).cycle() {
        let schema = format!("lent_{purpose}_{}_{number}", &version[..8]);
        let lock = sqlx::query_scalar("select pg_try_advisory_lock(hashtext($1), 0)").bind(&schema);
        if lock.fetch_one(&mut session).await.expect("a lock") {
            return (session, schema);
        }
    }
    unreachable!("it goes around for ever")
}

impl Pg {
    /// On a schema that is kept, empty as after a migration. Answers whether it was made just now.
    pub(crate) async fn lent(purpose: &str, config: StoreConfig) -> (Self, bool) {
        let (loan, schema) = borrow_schema(purpose).await;
        let pool = pool_for(&schema);
        let config = StoreConfig { schema: schema.clone(), ..config };
        let store = PgStore::connect(&url(), config).await.expect("the test server answers");
        let is_new = store.check_schema().await.is_err();
        if is_new {
            store.migrate().await.expect("migrates");
            run(&pool, "create table business (row bigint not null)").await;
        } else {
            run(&pool, CLEAN).await;
        }
        (Self { store: Arc::new(store), pool, schema, loan: Some(loan) }, is_new)
    }

    pub(crate) async fn with(config: StoreConfig) -> Self {
        let (pool, schema) = (pool_for(&config.schema), config.schema.clone());
        let store = PgStore::connect(&url(), config).await.expect("the test server answers");
        store.migrate().await.expect("migrates");
        run(&pool, "create table business (row bigint not null)").await;
        Self { store: Arc::new(store), pool, schema, loan: None }
    }

    pub(crate) async fn on_database_time() -> Self {
        Self::with(StoreConfig { schema: fresh_schema(), ..StoreConfig::default() }).await
    }
}

impl Harness for Pg {
    type Store = PgStore;
    type Plain = PoolConnection<Postgres>;

    async fn fresh(clock: ManualClock, options: Options) -> Self {
        let config = StoreConfig {
            keep_done: options.keep_done,
            halt: options.halt,
            fair_tenants: options.fair_tenants,
            clock: Clock::Manual(clock),
            ..StoreConfig::default()
        };
        let purpose = if options.fair_tenants { "fair" } else { "suite" };
        Self::lent(purpose, config).await.0
    }

    fn store(&self) -> Arc<PgStore> {
        Arc::clone(&self.store)
    }

    async fn connection(&self) -> PoolConnection<Postgres> {
        self.pool.acquire().await.expect("a connection")
    }

    async fn begin(&self, conn: &mut PgConnection) {
        conn.execute(sqlx::raw_sql("begin")).await.expect("begin");
    }

    async fn commit(&self, conn: &mut PgConnection) {
        conn.execute(sqlx::raw_sql("commit")).await.expect("commit");
    }

    async fn rollback(&self, conn: &mut PgConnection) {
        conn.execute(sqlx::raw_sql("rollback")).await.expect("rollback");
    }

    async fn write_business_row(&self, conn: &mut PgConnection, row: i64) {
        // The connection may be one of the store's, without the search path.
        let sql = "select set_config('search_path', $1, true)";
        sqlx::query(sql).bind(&self.schema).execute(&mut *conn).await.expect("search path");
        let insert = sqlx::query("insert into business values ($1)").persistent(false);
        insert.bind(row).execute(conn).await.expect("inside a transaction");
    }

    async fn business_rows(&self) -> Vec<i64> {
        let sql = "select row from business order by row";
        sqlx::query_scalar(sql).fetch_all(&self.pool).await.expect("rows")
    }

    async fn make_undecodable(&self, id: MessageId) {
        let sql = "update outbox_message set headers = '[1]' where id = $1";
        let update = sqlx::query(sql).bind(id.as_uuid());
        update.execute(&self.pool).await.expect("the message is there");
    }

    async fn finish(self) {
        if self.loan.is_none() {
            drop_schema(&self.pool).await;
        }
    }
}
