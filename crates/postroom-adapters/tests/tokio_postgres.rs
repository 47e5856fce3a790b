//! Publishing in transactions of tokio-postgres and deadpool-postgres.

mod support;

use std::sync::Arc;

use deadpool_postgres::{Manager, Pool};
use postroom_adapters::tokio_postgres::{publish_in, wake};
use postroom_adapters::{Enqueued, OutboxConfig, PgOutbox, StoreConfig};
use postroom_core::store::AdminStore;
use postroom_core::{ErrorKind, Message, MessageBuilder, Result};
use tokio_postgres::{Client, IsolationLevel, NoTls, Transaction};

use support::pg::{INSERT, Pg, heard, rival_message, url};
use support::{End, Layer, layer_cases};

struct TokioPostgres {
    pg: Pg,
    client: Client,
}

async fn write_row(tx: &Transaction<'_>, row: i64) {
    tx.execute(INSERT, &[&row]).await.expect("inside a transaction");
}

async fn publish_all(
    outbox: &PgOutbox,
    tx: &Transaction<'_>,
    messages: Vec<MessageBuilder>,
) -> Vec<Result<Enqueued>> {
    let mut answers = Vec::new();
    for message in messages {
        answers.push(publish_in(outbox, tx, message).await);
    }
    answers
}

impl Layer for TokioPostgres {
    async fn fresh() -> Self {
        let pg = Pg::fresh().await;
        let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.expect("connects");
        tokio::spawn(connection);
        client.batch_execute(&pg.search_path()).await.expect("sets");
        Self { pg, client }
    }

    async fn transaction(
        &mut self,
        messages: Vec<MessageBuilder>,
        end: End,
    ) -> Vec<Result<Enqueued>> {
        let tx = self.client.transaction().await.expect("begins");
        write_row(&tx, 1).await;
        let answers = publish_all(&self.pg.outbox, &tx, messages).await;
        match end {
            End::Rollback => tx.rollback().await.expect("rolls back"),
            End::Commit => {
                write_row(&tx, 2).await;
                tx.commit().await.expect("commits");
            }
        }
        answers
    }

    async fn business_rows(&self) -> Vec<i64> {
        self.pg.business_rows().await
    }

    fn store(&self) -> Arc<dyn AdminStore> {
        Arc::clone(&self.pg.store) as Arc<dyn AdminStore>
    }

    async fn finish(self) {
        self.pg.finish().await;
    }
}

layer_cases!(TokioPostgres);

#[tokio::test]
async fn pub_3_a_rolled_back_savepoint_takes_its_message_along() {
    let mut layer = TokioPostgres::fresh().await;
    let outbox = layer.pg.outbox.clone();
    let mut tx = layer.client.transaction().await.expect("begins");
    let inner = tx.transaction().await.expect("a savepoint");
    let gone = publish_in(&outbox, &inner, Message::builder("t")).await.expect("publishes");
    inner.rollback().await.expect("rolls back");
    let kept = publish_in(&outbox, &tx, Message::builder("t")).await.expect("publishes");
    tx.commit().await.expect("commits");
    assert!(layer.pg.store.get(gone.id).await.expect("looks").is_none());
    assert!(layer.pg.store.get(kept.id).await.expect("looks").is_some());
    layer.finish().await;
}

#[tokio::test]
async fn pub_4_a_wake_reaches_those_who_listen() {
    let layer = TokioPostgres::fresh().await;
    let ear = layer.pg.ear().await;
    wake(&layer.pg.outbox, &layer.client).await.expect("wakes");
    heard(ear).await;
    layer.finish().await;
}

#[tokio::test]
async fn pub_6_a_rival_waits_for_the_first_and_gets_its_id() {
    let mut layer = TokioPostgres::fresh().await;
    let (mut second, connection) = tokio_postgres::connect(&url(), NoTls).await.expect("connects");
    tokio::spawn(connection);
    let pid: i32 = second.query_one("select pg_backend_pid()", &[]).await.expect("asks").get(0);
    let outbox = layer.pg.outbox.clone();
    let tx = layer.client.transaction().await.expect("begins");
    let first = publish_in(&outbox, &tx, rival_message()).await.expect("publishes");

    let rival = async {
        let tx = second.transaction().await.expect("begins");
        let answer = publish_in(&outbox, &tx, rival_message()).await.expect("publishes");
        tx.commit().await.expect("commits");
        answer
    };
    let commit = async {
        layer.pg.until_waiting(pid).await;
        tx.commit().await.expect("commits");
    };
    let (answer, ()) = tokio::join!(rival, commit);
    assert_eq!(answer, Enqueued { id: first.id, already_existed: true });
    layer.finish().await;
}

#[tokio::test]
async fn pub_6_a_rival_behind_the_snapshot_is_contention() {
    let mut layer = TokioPostgres::fresh().await;
    let begin = layer.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let tx = begin.start().await.expect("begins");
    tx.batch_execute("select 1 from business").await.expect("takes its snapshot");
    layer.pg.publish_rival().await;
    let error = publish_in(&layer.pg.outbox, &tx, rival_message()).await.expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Contention);
    assert!(error.is_transient());
    drop(tx);
    layer.finish().await;
}

#[tokio::test]
async fn pub_1_an_aborted_transaction_and_a_missing_schema_are_told_apart() {
    let mut layer = TokioPostgres::fresh().await;
    let elsewhere = StoreConfig { schema: "elsewhere".into(), ..StoreConfig::default() };
    let elsewhere = PgOutbox::new(&elsewhere).expect("legal names");
    let tx = layer.client.transaction().await.expect("begins");
    for (outbox, kind) in
        [(&elsewhere, ErrorKind::Schema), (&layer.pg.outbox, ErrorKind::RolledBack)]
    {
        let error = publish_in(outbox, &tx, Message::builder("t")).await.expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
    }
    tx.commit().await.expect("which is a rollback");
    assert_eq!(layer.pg.store.stats().await.expect("counts").ready, 0);
    layer.finish().await;
}

#[tokio::test]
async fn msg_2_a_larger_payload_that_was_configured_is_written() {
    let mut layer = TokioPostgres::fresh().await;
    let config = OutboxConfig { max_payload_bytes: 2 << 20, ..OutboxConfig::default() };
    layer.pg.outbox = layer.pg.outbox.clone().configure(config).expect("legal");
    let large = Message::builder("t").payload(vec![7; (1 << 20) + 1]);
    assert!(layer.transaction(vec![large], End::Commit).await[0].is_ok());
    layer.finish().await;
}

#[tokio::test]
async fn sch_6_a_role_that_may_only_enqueue_publishes() {
    let mut layer = TokioPostgres::fresh().await;
    let role = layer.pg.producer().await;
    layer.client.batch_execute(&format!("set role {role}")).await.expect("sets");
    let denied = layer.client.batch_execute("select 1 from eu_outbox_message").await;
    assert!(denied.is_err(), "it may read nothing");
    let tx = layer.client.transaction().await.expect("begins");
    let first = publish_in(&layer.pg.outbox, &tx, rival_message()).await.expect("publishes");
    let second = publish_in(&layer.pg.outbox, &tx, rival_message()).await.expect("publishes");
    assert_eq!(second, Enqueued { id: first.id, already_existed: true });
    tx.commit().await.expect("commits");
    wake(&layer.pg.outbox, &layer.client).await.expect("wakes");
    assert_eq!(layer.pg.store.stats().await.expect("counts").ready, 1);
    layer.client.batch_execute("reset role").await.expect("resets");
    layer.pg.drop_producer(&role).await;
    layer.finish().await;
}

#[tokio::test]
async fn pub_9_a_pooled_transaction_is_as_good() {
    let pg = Pg::fresh().await;
    let manager = Manager::new(url().parse().expect("a URL"), NoTls);
    let pool = Pool::builder(manager).build().expect("a pool");
    let mut client = pool.get().await.expect("connects");
    let tx = client.transaction().await.expect("begins");
    let enqueued = publish_in(&pg.outbox, &tx, Message::builder("t")).await.expect("publishes");
    tx.commit().await.expect("commits");
    let ear = pg.ear().await;
    wake(&pg.outbox, &client).await.expect("wakes");
    heard(ear).await;
    assert!(pg.store.get(enqueued.id).await.expect("looks").is_some());
    pg.finish().await;
}
