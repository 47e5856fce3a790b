//! Publishing in transactions of sea-orm.

mod support;

use std::sync::Arc;

use postroom_adapters::Enqueued;
use postroom_adapters::sea_orm::{publish_in, wake};
use postroom_core::store::AdminStore;
use postroom_core::{ErrorKind, Message, MessageBuilder, Result};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend,
    IsolationLevel, Statement, TransactionTrait,
};

use support::pg::{INSERT, Pg, heard, rival_message, url};
use support::{End, Layer, layer_cases};

struct SeaOrm {
    pg: Pg,
    database: DatabaseConnection,
}

async fn write_row(tx: &DatabaseTransaction, row: i64) {
    let insert = Statement::from_sql_and_values(DbBackend::Postgres, INSERT, [row.into()]);
    tx.execute_raw(insert).await.expect("inside a transaction");
}

impl Layer for SeaOrm {
    async fn fresh() -> Self {
        let pg = Pg::fresh().await;
        let options = ConnectOptions::new(url()).set_schema_search_path(&pg.schema).to_owned();
        let database = Database::connect(options).await.expect("connects");
        Self { pg, database }
    }

    async fn transaction(
        &mut self,
        messages: Vec<MessageBuilder>,
        end: End,
    ) -> Vec<Result<Enqueued>> {
        let tx = self.database.begin().await.expect("begins");
        write_row(&tx, 1).await;
        let mut answers = Vec::new();
        for message in messages {
            answers.push(publish_in(&self.pg.outbox, &tx, message).await);
        }
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

layer_cases!(SeaOrm);

#[tokio::test]
async fn pub_3_a_rolled_back_savepoint_takes_its_message_along() {
    let layer = SeaOrm::fresh().await;
    let tx = layer.database.begin().await.expect("begins");
    let inner = tx.begin().await.expect("a savepoint");
    let outbox = &layer.pg.outbox;
    let gone = publish_in(outbox, &inner, Message::builder("t")).await.expect("publishes");
    inner.rollback().await.expect("rolls back");
    let kept = publish_in(outbox, &tx, Message::builder("t")).await.expect("publishes");
    tx.commit().await.expect("commits");
    assert!(layer.pg.store.get(gone.id).await.expect("looks").is_none());
    assert!(layer.pg.store.get(kept.id).await.expect("looks").is_some());
    layer.finish().await;
}

#[tokio::test]
async fn pub_4_a_wake_reaches_those_who_listen() {
    let layer = SeaOrm::fresh().await;
    let ear = layer.pg.ear().await;
    wake(&layer.pg.outbox, &layer.database).await.expect("wakes");
    heard(ear).await;
    layer.finish().await;
}

#[tokio::test]
async fn pub_6_a_rival_behind_the_snapshot_is_contention() {
    let layer = SeaOrm::fresh().await;
    let level = Some(IsolationLevel::RepeatableRead);
    let tx = layer.database.begin_with_config(level, None).await.expect("begins");
    tx.execute_unprepared("select 1 from business").await.expect("takes its snapshot");
    layer.pg.publish_rival().await;
    let error = publish_in(&layer.pg.outbox, &tx, rival_message()).await.expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Contention);
    tx.rollback().await.expect("rolls back");
    layer.finish().await;
}
