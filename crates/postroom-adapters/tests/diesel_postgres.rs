//! Publishing in transactions of diesel.

mod support;

use std::sync::Arc;

use diesel::connection::SimpleConnection;
use diesel::result::Error as DieselError;
use diesel::sql_types::BigInt;
use diesel::{Connection, PgConnection, RunQueryDsl, sql_query};
use postroom_adapters::Enqueued;
use postroom_adapters::diesel::{publish_in, wake};
use postroom_core::store::AdminStore;
use postroom_core::{ErrorKind, Message, MessageBuilder, Result};

use support::pg::{INSERT, Pg, heard, rival_message, url};
use support::{End, Layer, layer_cases};

struct Diesel {
    pg: Pg,
    conn: PgConnection,
}

fn write_row(conn: &mut PgConnection, row: i64) -> Result<usize, DieselError> {
    sql_query(INSERT).bind::<BigInt, _>(row).execute(conn)
}

impl Layer for Diesel {
    async fn fresh() -> Self {
        let pg = Pg::fresh().await;
        let mut conn = PgConnection::establish(&url()).expect("connects");
        conn.batch_execute(&pg.search_path()).expect("sets");
        Self { pg, conn }
    }

    async fn transaction(
        &mut self,
        messages: Vec<MessageBuilder>,
        end: End,
    ) -> Vec<Result<Enqueued>> {
        let mut answers = Vec::new();
        let ended = self.conn.transaction(|conn| {
            write_row(conn, 1)?;
            for message in messages {
                answers.push(publish_in(&self.pg.outbox, conn, message));
            }
            if end == End::Rollback {
                return Err(DieselError::RollbackTransaction);
            }
            write_row(conn, 2)
        });
        match end {
            End::Commit => assert_eq!(ended, Ok(1)),
            End::Rollback => assert_eq!(ended, Err(DieselError::RollbackTransaction)),
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

layer_cases!(Diesel);

#[tokio::test]
async fn pub_1_without_a_transaction_nothing_is_written() {
    let mut layer = Diesel::fresh().await;
    let message = Message::builder("t").build().expect("legal");
    for _ in 0..2 {
        let error = publish_in(&layer.pg.outbox, &mut layer.conn, &message);
        assert_eq!(error.expect_err("no transaction").kind(), ErrorKind::NotInTransaction);
        assert!(layer.pg.store.get(message.id()).await.expect("looks").is_none());
        layer.transaction(vec![Message::builder("other")], End::Commit).await;
    }
    layer.finish().await;
}

#[tokio::test]
async fn pub_3_a_rolled_back_savepoint_takes_its_message_along() {
    let mut layer = Diesel::fresh().await;
    let outbox = &layer.pg.outbox;
    let publish = |conn: &mut PgConnection| publish_in(outbox, conn, Message::builder("t"));
    let mut gone = None;
    let kept = layer.conn.transaction::<_, DieselError, _>(|conn| {
        let inner = conn.transaction::<(), DieselError, _>(|conn| {
            gone = Some(publish(conn).expect("publishes"));
            Err(DieselError::RollbackTransaction)
        });
        assert!(inner.is_err());
        Ok(publish(conn).expect("publishes"))
    });
    let (gone, kept) = (gone.expect("published"), kept.expect("commits"));
    assert!(layer.pg.store.get(gone.id).await.expect("looks").is_none());
    assert!(layer.pg.store.get(kept.id).await.expect("looks").is_some());
    layer.finish().await;
}

#[tokio::test]
async fn pub_4_a_wake_reaches_those_who_listen() {
    let mut layer = Diesel::fresh().await;
    let ear = layer.pg.ear().await;
    wake(&layer.pg.outbox, &mut layer.conn).expect("wakes");
    heard(ear).await;
    layer.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pub_6_a_rival_behind_the_snapshot_is_contention() {
    let mut layer = Diesel::fresh().await;
    let (pg, runtime) = (&layer.pg, tokio::runtime::Handle::current());
    let answer = tokio::task::block_in_place(|| {
        layer.conn.build_transaction().repeatable_read().run::<_, DieselError, _>(|conn| {
            conn.batch_execute("select 1 from business")?;
            runtime.block_on(pg.publish_rival());
            Ok(publish_in(&pg.outbox, conn, rival_message()))
        })
    });
    // What was refused can not be committed any more.
    let error = answer.expect("COMMIT is answered by ROLLBACK").expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Contention);
    layer.finish().await;
}
