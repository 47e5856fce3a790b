//! SQLite under test: a file of its own in a temp folder, or memory.

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_core::{Clock, ManualClock, MessageId};
use postroom_stores::{SqliteStore, StoreConfig};
use postroom_testkit::{Harness, Options};
use sqlx::pool::PoolConnection;
use sqlx::{Sqlite, SqliteConnection};
use tempfile::TempDir;

/// Where the database lives.
pub(crate) trait Place: Send + Sync + 'static {
    fn url(folder: &TempDir) -> String;
}

pub(crate) struct InFile;

impl Place for InFile {
    fn url(folder: &TempDir) -> String {
        folder.path().join("postroom.db").to_str().expect("a plain path").to_owned()
    }
}

/// The database of this folder on its own time, as another process would open it.
pub(crate) async fn open_in(folder: &TempDir) -> Arc<SqliteStore> {
    let store = SqliteStore::open(&InFile::url(folder), StoreConfig::default()).await;
    let store = store.expect("open");
    store.migrate().await.expect("migrate");
    Arc::new(store)
}

pub(crate) struct InMemory;

impl Place for InMemory {
    fn url(_: &TempDir) -> String {
        "sqlite::memory:".to_owned()
    }
}

pub(crate) struct SqliteIn<P> {
    store: Arc<SqliteStore>,
    /// None when the file is somebody else's.
    _folder: Option<TempDir>,
    _place: std::marker::PhantomData<P>,
}

impl<P: Place> SqliteIn<P> {
    /// The application on a store that was [set up](Self::set_up) before, here or in another
    /// process.
    pub(crate) fn on(store: Arc<SqliteStore>) -> Self {
        Self { store, _folder: None, _place: std::marker::PhantomData }
    }

    /// The tables of the application.
    pub(crate) async fn set_up(store: &SqliteStore) {
        let business = "create table business (n integer not null)";
        sqlx::raw_sql(business).execute(store.writer()).await.expect(business);
    }
}

impl<P: Place> Harness for SqliteIn<P> {
    type Store = SqliteStore;
    type Plain = PoolConnection<Sqlite>;

    async fn fresh(clock: ManualClock, options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a temp folder");
        let config = StoreConfig {
            clock: Clock::Manual(clock),
            keep_done: options.keep_done,
            halt: options.halt,
            fair_tenants: options.fair_tenants,
            ..StoreConfig::default()
        };
        let store = SqliteStore::open(&P::url(&folder), config).await.expect("open");
        store.migrate().await.expect("migrate");
        Self::set_up(&store).await;
        Self { store: Arc::new(store), _folder: Some(folder), _place: std::marker::PhantomData }
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
