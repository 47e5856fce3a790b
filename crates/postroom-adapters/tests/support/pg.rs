//! A schema of its own for each test, in the database that `POSTROOM_TEST_PG_URL` names.

use std::sync::Arc;
use std::time::Duration;

use postroom_adapters::{PgOutbox, StoreConfig};
use postroom_core::store::AdminStore;
use postroom_core::{Message, MessageBuilder, Outbox};
use postroom_stores::PgStore;
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::timeout;
use uuid::Uuid;

pub(crate) struct Pg {
    pub(crate) store: Arc<PgStore>,
    pub(crate) outbox: PgOutbox,
    pub(crate) pool: PgPool,
    pub(crate) schema: String,
}

pub(crate) fn url() -> String {
    std::env::var("POSTROOM_TEST_PG_URL")
        .expect("POSTROOM_TEST_PG_URL must name a PostgreSQL database for tests")
}

/// Writes a business row; the parameter is the row.
pub(crate) const INSERT: &str = "insert into business values ($1)";

impl Pg {
    pub(crate) async fn fresh() -> Self {
        let schema = format!("test_{}", Uuid::new_v4().simple());
        let config =
            StoreConfig { schema: schema.clone(), prefix: "eu_".into(), ..StoreConfig::default() };
        let outbox = PgOutbox::new(&config).expect("legal names");
        let store = PgStore::connect(&url(), config).await.expect("the test server answers");
        store.migrate().await.expect("migrates");
        let options: sqlx::postgres::PgConnectOptions = url().parse().expect("a URL");
        let pool = PgPoolOptions::new()
            .connect_lazy_with(options.options([("search_path", schema.as_str())]));
        pool.execute("create table business (row bigint not null)").await.expect("creates");
        Self { store: Arc::new(store), outbox, pool, schema }
    }

    /// For the session of a layer, to find the business table.
    pub(crate) fn search_path(&self) -> String {
        format!("set search_path to {}", self.schema)
    }

    pub(crate) async fn business_rows(&self) -> Vec<i64> {
        let sql = "select row from business order by row";
        sqlx::query_scalar(sql).fetch_all(&self.pool).await.expect("rows")
    }

    /// Hears what dispatchers hear.
    pub(crate) async fn ear(&self) -> PgListener {
        let mut ear = PgListener::connect(&url()).await.expect("connects");
        ear.listen(self.store.channel()).await.expect("listens");
        ear
    }

    /// Somebody else publishes [`rival_message`] and commits.
    pub(crate) async fn publish_rival(&self) {
        let outbox = Outbox::new(Arc::clone(&self.store));
        assert!(!outbox.publish(rival_message()).await.expect("publishes").already_existed);
    }

    /// Until that session waits for a lock.
    pub(crate) async fn until_waiting(&self, pid: i32) {
        let sql = "select exists (
            select 1 from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'
        )";
        let waits = async {
            loop {
                let query = sqlx::query_scalar(sql).bind(pid).fetch_one(&self.pool);
                let waits: bool = query.await.expect("looks");
                if waits {
                    break;
                }
            }
        };
        timeout(Duration::from_secs(30), waits).await.expect("it comes to wait");
    }

    /// A role that may call `outbox_enqueue` with bytes, which runs with the rights of its owner,
    /// and nothing else.
    pub(crate) async fn producer(&self) -> String {
        let role = format!("producer_{}", Uuid::new_v4().simple());
        let sql = format!(
            "create role {role};
            grant usage on schema {schema} to {role};
            revoke execute on all functions in schema {schema} from public;
            do $$ declare enqueue text; begin
                select p.oid::regprocedure into strict enqueue from pg_proc p
                where p.pronamespace = '{schema}'::regnamespace and p.proname = 'eu_outbox_enqueue'
                    and p.proargtypes[1] = 'bytea'::regtype;
                execute format('alter function %s security definer', enqueue);
                execute format('grant execute on function %s to {role}', enqueue);
            end $$",
            schema = self.schema
        );
        self.pool.execute(AssertSqlSafe(sql)).await.expect("grants");
        role
    }

    pub(crate) async fn drop_producer(&self, role: &str) {
        let sql = format!("drop owned by {role}; drop role {role}");
        self.pool.execute(AssertSqlSafe(sql)).await.expect("drops");
    }

    pub(crate) async fn finish(self) {
        let sql = "do $$ begin
            set client_min_messages = warning;
            execute format('drop schema if exists %I cascade', current_setting('search_path'));
        end $$";
        self.pool.execute(sql).await.expect("drops");
    }
}

/// What two publishers want to say.
pub(crate) fn rival_message() -> MessageBuilder {
    Message::builder("order.placed").idempotency_key(Uuid::from_u128(7))
}

/// Waits for a notification.
pub(crate) async fn heard(mut ear: PgListener) {
    let notification = timeout(Duration::from_secs(30), ear.recv()).await;
    notification.expect("a notification comes").expect("the connection stands");
}
