//! Publishing in transactions of diesel-async.

mod support;

use std::sync::Arc;

use diesel::result::Error as DieselError;
use diesel::sql_query;
use diesel::sql_types::BigInt;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use postroom_adapters::Enqueued;
use postroom_adapters::diesel_async::{publish_in, wake};
use postroom_core::store::AdminStore;
use postroom_core::{ErrorKind, Message, MessageBuilder, Result};

use support::pg::{INSERT, Pg, heard, rival_message, url};
use support::{End, Layer, layer_cases};

struct DieselAsync {
    pg: Pg,
    conn: AsyncPgConnection,
}

async fn write_row(conn: &mut AsyncPgConnection, row: i64) -> Result<usize, DieselError> {
    sql_query(INSERT).bind::<BigInt, _>(row).execute(conn).await
}

impl Layer for DieselAsync {
    async fn fresh() -> Self {
        let pg = Pg::fresh().await;
        let mut conn = AsyncPgConnection::establish(&url()).await.expect("connects");
        conn.batch_execute(&pg.search_path()).await.expect("sets");
        Self { pg, conn }
    }

    async fn transaction(
        &mut self,
        messages: Vec<MessageBuilder>,
        end: End,
    ) -> Vec<Result<Enqueued>> {
        let mut answers = Vec::new();
        let ended = self.conn.transaction(async |conn| {
            write_row(conn, 1).await?;
            for message in messages {
                answers.push(publish_in(&self.pg.outbox, conn, message).await);
            }
            if end == End::Rollback {
                return Err(DieselError::RollbackTransaction);
            }
            write_row(conn, 2).await
        });
        match (end, ended.await) {
            (End::Commit, ended) => assert_eq!(ended, Ok(1)),
            (End::Rollback, ended) => assert_eq!(ended, Err(DieselError::RollbackTransaction)),
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

layer_cases!(DieselAsync);

#[tokio::test]
async fn pub_1_without_a_transaction_nothing_is_written() {
    let mut layer = DieselAsync::fresh().await;
    let message = Message::builder("t").build().expect("legal");
    for _ in 0..2 {
        let error = publish_in(&layer.pg.outbox, &mut layer.conn, &message).await;
        assert_eq!(error.expect_err("no transaction").kind(), ErrorKind::NotInTransaction);
        assert!(layer.pg.store.get(message.id()).await.expect("looks").is_none());
        layer.transaction(vec![Message::builder("other")], End::Commit).await;
    }
    layer.finish().await;
}

#[tokio::test]
async fn pub_4_a_wake_reaches_those_who_listen() {
    let mut layer = DieselAsync::fresh().await;
    let ear = layer.pg.ear().await;
    wake(&layer.pg.outbox, &mut layer.conn).await.expect("wakes");
    heard(ear).await;
    layer.finish().await;
}

#[tokio::test]
async fn pub_6_a_rival_behind_the_snapshot_is_contention() {
    let mut layer = DieselAsync::fresh().await;
    let pg = &layer.pg;
    let mut begin = layer.conn.build_transaction().repeatable_read();
    let run = begin.run(async |conn| {
        conn.batch_execute("select 1 from business").await?;
        pg.publish_rival().await;
        Ok::<_, DieselError>(publish_in(&pg.outbox, conn, rival_message()).await)
    });
    // What was refused can not be committed any more.
    let error = run.await.expect("COMMIT is answered by ROLLBACK").expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Contention);
    layer.finish().await;
}
