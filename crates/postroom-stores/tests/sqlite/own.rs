//! What is SQLite's own: its schema, its plans, and the ways a transaction can end there.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, Store, TransactionalStore};
use postroom_core::{ErrorKind, Inbox, Message, Outbox, OwnerToken, Received, WorkQueue};
use postroom_stores::sqlite::{SqliteTx, migration_sql};
use postroom_stores::{Queue, SqliteStore, StoreConfig};
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

struct File {
    folder: TempDir,
}

impl File {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temp folder") }
    }

    fn path(&self) -> String {
        self.folder.path().join("postroom.db").to_str().expect("a plain path").to_owned()
    }

    async fn open(&self, config: StoreConfig) -> SqliteStore {
        SqliteStore::open(&self.path(), config).await.expect("open")
    }

    async fn migrated(&self) -> SqliteStore {
        let store = self.open(StoreConfig::default()).await;
        store.migrate().await.expect("migrate");
        store
    }
}

async fn run(store: &SqliteStore, sql: &'static str) {
    sqlx::raw_sql(sql).execute(store.writer()).await.expect(sql);
}

async fn count(store: &SqliteStore, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(store.writer()).await.expect(sql)
}

fn message() -> Message {
    Message::builder("order.placed").payload("{}").build().expect("legal")
}

#[tokio::test(flavor = "multi_thread")]
async fn sch_1_ten_migrations_at_once() {
    let file = File::new();
    let racers = (0..10).map(|_| {
        let path = file.path();
        tokio::spawn(async move {
            let store = SqliteStore::open(&path, StoreConfig::default()).await.expect("open");
            store.migrate().await.expect("migrate")
        })
    });
    let mut fresh = 0;
    for racer in racers.collect::<Vec<_>>() {
        let migrated = racer.await.expect("racer");
        assert_eq!(migrated.to, 8);
        fresh += u32::from(migrated.from == 0);
    }
    assert_eq!(fresh, 1, "one of them did the work");
    file.open(StoreConfig::default()).await.check_schema().await.expect("it fits");
}

#[tokio::test]
async fn sch_1_a_schema_that_does_not_fit_is_refused_with_the_way_out() {
    let file = File::new();
    let store = file.open(StoreConfig::default()).await;
    let refused = async |expected: &str| {
        let error = store.check_schema().await.expect_err("does not fit");
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains(expected), "{error}");
    };
    refused("no Postroom schema; run `postroom migrate`").await;
    let error = Outbox::new(Arc::new(store.clone())).publish(message()).await;
    assert_eq!(error.expect_err("no tables").kind(), ErrorKind::Schema);
    store.migrate().await.expect("migrate");
    run(&store, "update postroom_meta set version = 1").await;
    refused("at version 1 and this build needs 8").await;
    run(&store, "update postroom_meta set version = 99, min_client = 99").await;
    refused("upgrade Postroom").await;
    let error = store.migrate().await.expect_err("never downgrades");
    assert_eq!(error.kind(), ErrorKind::Schema);
    run(&store, "update postroom_meta set min_client = 4").await;
    store.check_schema().await.expect("a newer schema that admits this build");
}

#[tokio::test]
async fn sch_2_the_printed_schema_works_as_printed() {
    let file = File::new();
    let config = StoreConfig { schema: "mail".to_owned(), ..StoreConfig::default() };
    let store = file.open(config.clone()).await;
    let text = migration_sql(&config).expect("legal names");
    let script = || sqlx::raw_sql(sqlx::AssertSqlSafe(text.clone()));
    script().execute(store.writer()).await.expect("runs");
    store.check_schema().await.expect("it fits");
    let migrated = store.migrate().await.expect("migrate");
    assert_eq!(migrated.from, migrated.to, "nothing is left to do");
    let outbox = Outbox::new(Arc::new(store));
    assert!(outbox.publish(message()).await.is_ok());
}

/// SCH-3: an older schema with a message in it.
#[tokio::test]
async fn sch_3_version_2_is_brought_up_to_date_with_what_is_in_it() {
    let file = File::new();
    let store = Arc::new(file.open(StoreConfig::default()).await);
    let (tables, shared) = (
        include_str!("../../migrations/sqlite/0001_tables.sql"),
        include_str!("../../migrations/sqlite/0002_shared.sql"),
    );
    let old = format!(
        "{tables}; {}; {shared};
        create table postroom_meta (only_row integer primary key, version, min_client);
        insert into postroom_meta values (1, 2, 2);
        insert into postroom_outbox_message (seq, id, topic, payload, occurred_at, created_at)
        values (1, randomblob(16), 'order.placed', 'x', 0, 0);
        insert into postroom_outbox_queue (seq, id, topic_hash, priority)
        select seq, id, 7, 0 from postroom_outbox_message",
        tables.replace("postroom_outbox", "postroom_inbox"),
    );
    let old = sqlx::raw_sql(sqlx::AssertSqlSafe(old));
    old.execute(store.writer()).await.expect("version 2");
    assert_eq!(store.check_schema().await.expect_err("too old").kind(), ErrorKind::Schema);
    assert_eq!(store.migrate().await.expect("migrate").from, 2);
    store.check_schema().await.expect("it fits");
    let queue = WorkQueue::new(Arc::clone(&store) as Arc<dyn Store>);
    let items = queue.claim(OwnerToken::random(), Duration::from_secs(9), 10).await;
    assert_eq!(items.expect("claim").items[0].message.topic().as_str(), "order.placed");
    let inbox = Inbox::new(&Outbox::new(store), "billing").expect("legal");
    let received = inbox.receive("shop", "1", message()).await.expect("receives");
    assert!(matches!(received, Received::New(_)));
}

#[tokio::test]
async fn sch_2_boxes_and_prefixes_do_not_mix() {
    let file = File::new();
    let inbox = StoreConfig { queue: Queue::Inbox, ..StoreConfig::default() };
    let other = StoreConfig { prefix: "eu_".to_owned(), ..StoreConfig::default() };
    for config in [StoreConfig::default(), inbox, other] {
        let store = Arc::new(file.open(config).await);
        store.migrate().await.expect("migrate");
        Outbox::new(Arc::clone(&store)).publish(message()).await.expect("publish");
        assert_eq!(store.stats().await.expect("stats").ready, 1);
    }
}

/// B07: SQLite ends the transaction on its own; the next statement would commit by itself.
#[tokio::test]
async fn pub_1_after_a_rollback_by_the_database_nothing_is_written() {
    let file = File::new();
    let store = Arc::new(file.migrated().await);
    run(&store, "create table business (n integer primary key)").await;
    let outbox = Outbox::new(Arc::clone(&store));
    let mut tx = outbox.begin().await.expect("begin");
    let insert = "insert or rollback into business values (1)";
    sqlx::raw_sql(insert).execute(tx.conn()).await.expect("the first");
    sqlx::raw_sql(insert).execute(tx.conn()).await.expect_err("ends the transaction");
    tx.publish(message()).expect("stage");
    let error = tx.commit().await.expect_err("there is no transaction any more");
    assert_eq!(error.kind(), ErrorKind::RolledBack);
    assert_eq!(store.stats().await.expect("stats").ready, 0);
    assert_eq!(count(&store, "select count(*) from business").await, 0);
    // And a plain connection in that state is told so.
    let mut tx = store.writer().begin_with("begin immediate").await.expect("begin");
    sqlx::raw_sql(insert).execute(&mut *tx).await.expect("the first");
    sqlx::raw_sql(insert).execute(&mut *tx).await.expect_err("ends the transaction");
    let error = outbox.publish_in(&mut tx, message()).await.expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction);
}

/// The same two savepoints deep, where the driver's books are wrong by three.
#[tokio::test]
async fn pub_3_a_rollback_by_the_database_inside_savepoints_does_not_wedge_the_pool() {
    let file = File::new();
    let memory = SqliteStore::in_memory(StoreConfig::default()).await.expect("open");
    memory.migrate().await.expect("migrate");
    for store in [file.migrated().await, memory] {
        ends_inside_savepoints(Arc::new(store)).await;
    }
}

async fn ends_inside_savepoints(store: Arc<SqliteStore>) {
    run(&store, "create table business (n integer primary key)").await;
    let outbox = Outbox::new(Arc::clone(&store));
    let mut tx = outbox.begin().await.expect("begin");
    let mut one = tx.savepoint().await.expect("savepoint");
    let mut two = one.savepoint().await.expect("savepoint");
    let insert = "insert or rollback into business values (1)";
    sqlx::raw_sql(insert).execute(two.conn()).await.expect("the first");
    sqlx::raw_sql(insert).execute(two.conn()).await.expect_err("ends the transaction");
    drop(two);
    drop(one);
    assert_eq!(tx.commit().await.expect_err("ended").kind(), ErrorKind::RolledBack);
    for ready in 1..=3 {
        outbox.publish(message()).await.expect("there is a connection that works");
        assert_eq!(store.stats().await.expect("stats").ready, ready);
    }
    let mut tx = outbox.begin().await.expect("begin");
    tx.publish(message()).expect("stage");
    tx.rollback().await.expect("rollback");
    assert_eq!(store.stats().await.expect("stats").ready, 3);
}

#[tokio::test]
async fn pub_3_a_transaction_of_the_callers_can_be_adopted() {
    let file = File::new();
    let store = Arc::new(file.migrated().await);
    let outbox = Outbox::new(Arc::clone(&store));
    let began = store.writer().begin_with("begin immediate").await.expect("begin");
    let mut tx = outbox.adopt(SqliteTx::adopt(began).await.expect("adopt"));
    tx.publish(message()).expect("stage");
    let mut inner = tx.savepoint().await.expect("savepoint");
    inner.publish(message()).expect("stage");
    drop(inner);
    assert_eq!(tx.commit().await.expect("commit").published.len(), 1);
    assert_eq!(store.stats().await.expect("stats").ready, 1);
}

#[tokio::test]
async fn dsp_12_a_locked_file_is_unavailable_and_nothing_is_lost() {
    let file = File::new();
    file.migrated().await.close().await;
    let impatient = SqliteConnectOptions::new().filename(file.path());
    let impatient = impatient.busy_timeout(Duration::from_millis(1));
    let store = SqliteStore::open_with(impatient, StoreConfig::default()).await.expect("open");
    let queue = WorkQueue::new(Arc::new(store.clone()));
    let outbox = Outbox::new(Arc::new(store.clone()));
    outbox.publish(message()).await.expect("publish");
    let other = file.open(StoreConfig::default()).await;
    let holder = other.begin().await.expect("holds the write lock");
    let me = OwnerToken::random();
    let error = queue.claim(me, Duration::from_secs(30), 1).await.expect_err("locked");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unavailable, true));
    let error = outbox.publish(message()).await.expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    drop(holder);
    let items = loop {
        // The rollback of a dropped transaction runs in the background.
        match queue.claim(me, Duration::from_secs(30), 10).await {
            Ok(claimed) => break claimed.items,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((items.len(), items[0].attempts), (1, 0));
}

#[tokio::test]
async fn the_view_shows_what_people_ask_for() {
    let file = File::new();
    let store = Arc::new(file.migrated().await);
    Outbox::new(Arc::clone(&store)).publish(message()).await.expect("publish");
    let row: (String, String, i64, String) =
        sqlx::query_as("select topic, status, retry_count, payload_text from postroom_outbox")
            .fetch_one(store.writer())
            .await
            .expect("the view");
    assert_eq!(row, ("order.placed".to_owned(), "ready".to_owned(), 0, "{}".to_owned()));
}

/// Fills the tables without going through the store, because a million rows would take a while.
const FILL: &str = "
with recursive n (i) as (select 1 union all select i + 1 from n where i < 100000)
insert into postroom_outbox_parked (seq, id, topic_hash, priority, wake_at)
select 2000000 + i, randomblob(16), 1, 0, 9000000000000000 + i from n;
with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000000)
insert into postroom_outbox_settled (seq, id, state, settled_at, attempts, lost)
select i, x'00', 1, i, 0, 0 from n;
with recursive n (i) as (select 1 union all select i + 1 from n where i < 1000)
insert into postroom_outbox_queue (seq, id, topic_hash, priority)
select 3000000 + i, randomblob(16), 1, 0 from n;
";

#[tokio::test]
async fn wq_11_a_claim_reads_live_work_only_whatever_the_statistics_say() {
    let file = File::new();
    let store = file.migrated().await;
    // Statistics: none, taken when the tables were empty, fresh.
    run(&store, "analyze").await;
    run(&store, FILL).await;
    for statistics in ["select 1", "delete from sqlite_stat1; analyze sqlite_schema", "analyze"] {
        run(&store, statistics).await;
        let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
            "explain query plan {}",
            include_str!("../../sql/sqlite/claim.sql")
        )))
        .bind(1)
        .bind(100)
        .bind(1)
        .fetch_all(store.writer())
        .await
        .expect("explain");
        let lines: Vec<_> = plan.into_iter().map(|(_, _, _, line)| line).collect();
        let text = lines.join("\n");
        assert!(!text.contains("outbox_settled"), "settled work is never read:\n{text}");
        for index in ["parked_high", "parked_zero", "parked_low", "parked_suspect"] {
            let used = format!("SEARCH postroom_outbox_parked USING INDEX postroom_outbox_{index}");
            assert!(text.contains(&used), "{index} after {statistics:?}:\n{text}");
        }
        // The only walk through the queue by place is the one that finds the oldest ready rows.
        for line in lines.iter().filter(|line| line.contains("SCAN postroom_outbox_")) {
            let indexed = ["queue_plain", "queue_high", "queue_low", "queue_suspect"];
            assert!(
                indexed.iter().any(|index| line.contains(index)),
                "{line} after {statistics:?}"
            );
        }
        let walk = "SCAN postroom_outbox_queue USING INDEX postroom_outbox_queue_plain";
        let walks = lines.iter().filter(|line| *line == walk).count();
        assert_eq!(walks, 1, "after {statistics:?}:\n{text}");
    }
}

#[tokio::test]
async fn fleet_6_the_indexes_for_tenants_are_made_where_they_are_wanted() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let file = folder.path().join("fair.db").display().to_string();
    let plain = SqliteStore::open(&file, StoreConfig::default()).await.expect("open");
    plain.migrate().await.expect("migrates");
    let config = StoreConfig { fair_tenants: true, ..StoreConfig::default() };
    let fair = SqliteStore::open(&file, config.clone()).await.expect("open");
    let missing = fair.check_schema().await.expect_err("the schema is there, the indexes are not");
    assert_eq!(missing.kind(), ErrorKind::Schema);
    assert!(missing.to_string().contains("run `postroom migrate --fair-tenants`"), "{missing}");
    fair.migrate().await.expect("makes them");
    fair.check_schema().await.expect("fits");
    plain.migrate().await.expect("leaves them");
    fair.check_schema().await.expect("still fits");

    let script = migration_sql(&config).expect("legal names");
    let other = SqliteStore::in_memory(config).await.expect("open");
    sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(other.writer()).await.expect("as printed");
    other.check_schema().await.expect("fits");
}

#[tokio::test]
async fn wq_11_a_fair_claim_goes_by_its_indexes_whatever_the_statistics_say() {
    let file = File::new();
    let store = file.open(StoreConfig { fair_tenants: true, ..StoreConfig::default() }).await;
    store.migrate().await.expect("migrate");
    run(&store, "analyze").await;
    run(&store, FILL).await;
    for statistics in ["select 1", "delete from sqlite_stat1; analyze sqlite_schema", "analyze"] {
        run(&store, statistics).await;
        for statement in [
            include_str!("../../sql/sqlite/claim_tenants.sql"),
            include_str!("../../sql/sqlite/claim_waiting.sql"),
            include_str!("../../sql/sqlite/claim_fair.sql"),
        ] {
            let sql = format!("explain query plan {statement}");
            let plan: Vec<(i64, i64, i64, String)> = sqlx::query_as(sqlx::AssertSqlSafe(sql))
                .bind(1)
                .bind(100)
                .bind(1)
                .bind(None::<String>)
                .bind(64)
                .fetch_all(store.writer())
                .await
                .expect("explain");
            let lines: Vec<_> = plan.into_iter().map(|(_, _, _, line)| line).collect();
            let text = lines.join("\n");
            let searches: Vec<_> =
                lines.iter().filter(|line| line.contains("_tenants (<expr>")).collect();
            assert!(!searches.is_empty(), "after {statistics:?}:\n{text}");
            let scan = |line: &&String| {
                line.starts_with("SCAN postroom_outbox_") || line.starts_with("SCAN p ")
            };
            assert_eq!(lines.iter().find(scan), None, "after {statistics:?}:\n{text}");
        }
    }
}
