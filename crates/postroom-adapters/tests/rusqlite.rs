//! Publishing in transactions of rusqlite.

mod support;

use std::sync::Arc;

use postroom_adapters::rusqlite::publish_in;
use postroom_adapters::{Enqueued, SqliteOutbox, StoreConfig};
use postroom_core::store::AdminStore;
use postroom_core::{ErrorKind, Message, MessageBuilder, Result};
use postroom_stores::SqliteStore;
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

use support::{End, Layer, layer_cases};

struct Rusqlite {
    outbox: SqliteOutbox,
    store: Arc<SqliteStore>,
    conn: Connection,
    _folder: TempDir,
}

fn write_row(conn: &Connection, row: i64) {
    conn.execute("insert into business values (?1)", [row]).expect("inside a transaction");
}

impl Layer for Rusqlite {
    async fn fresh() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("orders.db");
        let config = StoreConfig { prefix: "eu_".into(), ..StoreConfig::default() };
        let outbox = SqliteOutbox::new(&config).expect("legal names");
        let path = file.to_str().expect("a plain path");
        let store = Arc::new(SqliteStore::open(path, config).await.expect("opens"));
        store.migrate().await.expect("migrates");
        let conn = Connection::open(file).expect("opens");
        conn.execute_batch("create table business (row integer not null)").expect("creates");
        Self { outbox, store, conn, _folder: folder }
    }

    async fn transaction(
        &mut self,
        messages: Vec<MessageBuilder>,
        end: End,
    ) -> Vec<Result<Enqueued>> {
        let begin = self.conn.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = begin.expect("begins");
        write_row(&tx, 1);
        let publish = |message| publish_in(&self.outbox, &tx, message);
        let answers = messages.into_iter().map(publish).collect();
        match end {
            End::Rollback => tx.rollback().expect("rolls back"),
            End::Commit => {
                write_row(&tx, 2);
                tx.commit().expect("commits");
            }
        }
        answers
    }

    async fn business_rows(&self) -> Vec<i64> {
        let sql = "select row from business order by row";
        let mut rows = self.conn.prepare(sql).expect("prepares");
        rows.query_map([], |row| row.get(0)).expect("runs").map(|row| row.expect("a row")).collect()
    }

    fn store(&self) -> Arc<dyn AdminStore> {
        Arc::clone(&self.store) as Arc<dyn AdminStore>
    }

    async fn finish(self) {
        self.store.close().await;
    }
}

layer_cases!(Rusqlite);

#[tokio::test]
async fn pub_1_where_sqlite_ended_the_transaction_nothing_is_written() {
    let mut layer = Rusqlite::fresh().await;
    let tx = layer.conn.transaction().expect("begins");
    tx.execute_batch("rollback").expect("as a full disk does");
    let error = publish_in(&layer.outbox, &tx, Message::builder("t")).expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction);
    drop(tx);
    assert_eq!(layer.store.stats().await.expect("counts").ready, 0);
    layer.finish().await;
}

#[tokio::test]
async fn pub_1_what_hides_a_connection_without_a_transaction_is_refused() {
    let layer = Rusqlite::fresh().await;
    let pooled: Box<Connection> = Box::new(layer.conn);
    let error = publish_in(&layer.outbox, &pooled, Message::builder("t")).expect_err("refuses");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction);
    assert_eq!(layer.store.stats().await.expect("counts").ready, 0);
}

#[tokio::test]
async fn pub_3_a_rolled_back_savepoint_takes_its_message_along() {
    let mut layer = Rusqlite::fresh().await;
    let mut tx = layer.conn.transaction().expect("begins");
    let mut inner = tx.savepoint().expect("a savepoint");
    let gone = publish_in(&layer.outbox, &inner, Message::builder("t")).expect("publishes");
    inner.rollback().expect("rolls back");
    drop(inner);
    let kept = publish_in(&layer.outbox, &tx, Message::builder("t")).expect("publishes");
    tx.commit().expect("commits");
    assert!(layer.store.get(gone.id).await.expect("looks").is_none());
    assert!(layer.store.get(kept.id).await.expect("looks").is_some());
    layer.finish().await;
}

#[tokio::test]
async fn pub_6_a_taken_id_leaves_the_transaction_usable() {
    let mut layer = Rusqlite::fresh().await;
    let message = |payload: &'static str| Message::builder("t").payload(payload);
    let tx = layer.conn.transaction().expect("begins");
    let first = publish_in(&layer.outbox, &tx, message("first")).expect("publishes");
    let taken = publish_in(&layer.outbox, &tx, message("other").id(first.id));
    assert_eq!(taken.expect_err("taken").kind(), ErrorKind::IdTaken);
    let again = publish_in(&layer.outbox, &tx, message("first").id(first.id)).expect("publishes");
    assert_eq!(again, Enqueued { id: first.id, already_existed: true });
    tx.commit().expect("commits");
    assert_eq!(layer.store.stats().await.expect("counts").ready, 1);
    layer.finish().await;
}

#[tokio::test]
async fn pub_11_a_locked_file_and_a_missing_schema_are_told_apart() {
    let mut layer = Rusqlite::fresh().await;
    layer.conn.busy_timeout(std::time::Duration::ZERO).expect("sets");
    let mut rival = Connection::open(layer.conn.path().expect("a file")).expect("opens");
    let holds = rival.transaction_with_behavior(TransactionBehavior::Immediate).expect("begins");
    let tx = layer.conn.transaction().expect("begins without a lock");
    let error = publish_in(&layer.outbox, &tx, Message::builder("t")).expect_err("locked");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    drop(holds);
    let elsewhere = StoreConfig { schema: "elsewhere".into(), ..StoreConfig::default() };
    let elsewhere = SqliteOutbox::new(&elsewhere).expect("legal names");
    let error = publish_in(&elsewhere, &tx, Message::builder("t")).expect_err("no tables");
    assert_eq!(error.kind(), ErrorKind::Schema);
    drop(tx);
    layer.finish().await;
}

#[tokio::test]
async fn pub_1_a_publish_that_fails_halfway_leaves_nothing_behind() {
    let mut layer = Rusqlite::fresh().await;
    let fail = "create trigger fail before insert on postroom_eu_outbox_queue
        begin select raise(abort, 'no place'); end";
    layer.conn.execute_batch(fail).expect("creates");
    let keyed = || Message::builder("t").idempotency_key(uuid::Uuid::from_u128(7));
    let failed = layer.transaction(vec![keyed()], End::Commit).await;
    assert_eq!(failed[0].as_ref().expect_err("no place").kind(), ErrorKind::Database);
    assert_eq!(layer.business_rows().await, [1, 2]);
    let left: i64 = layer
        .conn
        .query_row(
            "select (select count(*) from postroom_eu_outbox_message)
                + (select count(*) from postroom_eu_outbox_key)",
            [],
            |row| row.get(0),
        )
        .expect("counts");
    assert_eq!(left, 0);
    layer.conn.execute_batch("drop trigger fail").expect("drops");
    let again = layer.transaction(vec![keyed()], End::Commit).await;
    assert!(again[0].as_ref().is_ok_and(|answer| !answer.already_existed));
    layer.finish().await;
}
