//! A SQLite store under test: a file of its own in a temp folder.

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_core::{Clock, ManualClock, MessageId};
use postroom_stores::{SqliteStore, StoreConfig};
use postroom_testkit::{Harness, Options};
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection};
use tempfile::TempDir;

pub(crate) struct SqliteFile {
    store: Arc<SqliteStore>,
    _folder: TempDir,
}

impl Harness for SqliteFile {
    type Store = SqliteStore;
    type Plain = PoolConnection<Sqlite>;

    async fn fresh(clock: ManualClock, options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a temp folder");
        let path = folder.path().join("postroom.db");
        let config = StoreConfig {
            clock: Clock::Manual(clock),
            keep_done: options.keep_done,
            ..StoreConfig::default()
        };
        let path = path.to_str().expect("a plain path");
        let store = SqliteStore::open(path, config).await.expect("open");
        store.migrate().await.expect("migrate");
        run(&store, "create table business (n integer not null)").await;
        Self { store: Arc::new(store), _folder: folder }
    }

    fn store(&self) -> Arc<SqliteStore> {
        Arc::clone(&self.store)
    }

    async fn connection(&self) -> PoolConnection<Sqlite> {
        self.store.writer().acquire().await.expect("a connection")
    }

    async fn begin(&self, conn: &mut SqliteConnection) {
        sqlx::raw_sql("begin immediate").execute(conn).await.expect("begin");
    }

    async fn commit(&self, conn: &mut SqliteConnection) {
        sqlx::raw_sql("commit").execute(conn).await.expect("commit");
    }

    async fn rollback(&self, conn: &mut SqliteConnection) {
        sqlx::raw_sql("rollback").execute(conn).await.expect("rollback");
    }

    async fn write_business_row(&self, conn: &mut SqliteConnection, row: i64) {
        let insert = sqlx::query("insert into business (n) values (?1)").bind(row);
        insert.execute(conn).await.expect("insert");
    }

    async fn business_rows(&self) -> Vec<i64> {
        let rows = sqlx::query_scalar("select n from business order by n");
        rows.fetch_all(self.store.writer()).await.expect("select")
    }

    async fn make_undecodable(&self, id: MessageId) {
        let damage = "update postroom_outbox_message set headers = 'garbage' where id = ?1";
        let damaged = sqlx::query(damage).bind(id.as_uuid());
        damaged.execute(self.store.writer()).await.expect("update");
    }

    async fn finish(self) {
        self.store.close().await;
    }
}

async fn run(store: &SqliteStore, sql: &'static str) {
    sqlx::raw_sql(sql).execute(store.writer()).await.expect(sql);
}
