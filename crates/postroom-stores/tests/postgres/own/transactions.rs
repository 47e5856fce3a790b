//! The ends that a transaction can come to.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use postroom_core::store::{AdminStore, Claim, Store, StoreTransaction, TransactionalStore};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, ErrorKind, Handlers, Message, MessageBuilder, Outbox,
    OwnerToken,
};
use postroom_stores::postgres::PgTx;
use postroom_stores::{PgStore, StoreConfig};
use postroom_testkit::Harness;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::postgres_support::{Pg, run};

fn plain() -> MessageBuilder {
    Message::builder("order.placed").payload("{}")
}

fn keyed(n: u128) -> MessageBuilder {
    plain().idempotency_key(Uuid::from_u128(n))
}

async fn ready(pg: &Pg) -> u64 {
    pg.store.stats().await.expect("stats").ready
}

#[tokio::test]
async fn b05_committing_an_aborted_transaction_is_rolled_back() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    for staged in [false, true] {
        let mut tx = outbox.begin().await.expect("begins");
        if staged {
            tx.publish(plain()).expect("legal");
        }
        tx.conn().execute("select 1/0").await.expect_err("aborts the transaction");
        let error = tx.commit().await.expect_err("the server would answer ROLLBACK");
        assert_eq!(error.kind(), ErrorKind::RolledBack, "{error}");
    }
    assert_eq!(ready(&pg).await, 0);
    pg.finish().await;
}

/// With a dispatcher that would take the message from the commit.
#[tokio::test]
async fn b05_an_aborted_or_refused_commit_sends_nothing() {
    let pg = Pg::on_database_time().await;
    let once =
        "alter table business add constraint once unique (row) deferrable initially deferred";
    run(&pg.pool, once).await;
    let handled = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&handled);
    let handlers = Handlers::new().all(move |_: Delivery| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Ok(()) }
    });
    let config = DispatcherConfig { hot_queue: 1, ..DispatcherConfig::default() };
    let running = Dispatcher::new(pg.store(), handlers).config(config).start().expect("starts");
    let outbox = Outbox::new(pg.store());
    for aborted in [true, false] {
        let mut tx = outbox.begin().await.expect("begins");
        tx.publish(plain()).expect("legal");
        if aborted {
            tx.conn().execute("select 1/0").await.expect_err("aborts the transaction");
        } else {
            pg.write_business_row(tx.conn(), 1).await;
            pg.write_business_row(tx.conn(), 1).await;
        }
        let error = tx.commit().await.expect_err("nothing was committed");
        assert_eq!(error.kind(), ErrorKind::RolledBack, "{error}");
    }
    outbox.publish(plain()).await.expect("publishes");
    let done = async || pg.store.stats().await.expect("stats").done;
    while done().await < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(running.snapshot().counts.hot_dropped, 0, "the place came back each time");
    assert!(running.shutdown(Duration::from_secs(5)).await);
    assert_eq!(handled.load(Ordering::SeqCst), 1, "only what was committed");
    pg.finish().await;
}

#[tokio::test]
async fn pub_11_a_constraint_that_fails_at_commit_is_rolled_back() {
    let pg = Pg::on_database_time().await;
    run(
        &pg.pool,
        "alter table business add constraint once unique (row) deferrable initially deferred",
    )
    .await;
    let outbox = Outbox::new(pg.store());
    let mut tx = outbox.begin().await.expect("begins");
    pg.write_business_row(tx.conn(), 1).await;
    pg.write_business_row(tx.conn(), 1).await;
    tx.publish(plain()).expect("legal");
    let error = tx.commit().await.expect_err("COMMIT is refused");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, false), "{error}");
    assert_eq!(ready(&pg).await, 0);
    pg.finish().await;
}

#[tokio::test]
async fn pub_11_a_session_killed_at_commit_is_unknown() {
    let pg = Pg::on_database_time().await;
    // COMMIT waits in a deferred trigger, so that the session can be killed right there.
    run(
        &pg.pool,
        "create function wait() returns trigger language plpgsql as
            $$ begin perform pg_sleep(30); return null; end $$;
        create constraint trigger wait after insert on business
            deferrable initially deferred for each row execute function wait()",
    )
    .await;
    let outbox = Outbox::new(pg.store());
    let mut tx = outbox.begin().await.expect("begins");
    pg.write_business_row(tx.conn(), 1).await;
    tx.publish(plain()).expect("legal");
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()")
        .fetch_one(tx.conn())
        .await
        .expect("a session");
    let committing = tokio::spawn(async move { tx.commit().await });
    let in_commit = "select count(*) from pg_stat_activity
        where pid = $1 and wait_event = 'PgSleep'";
    until(&pg, in_commit, pid, 1).await;
    sqlx::query("select pg_terminate_backend($1)")
        .bind(pid)
        .execute(&pg.pool)
        .await
        .expect("kills");
    let error = committing.await.expect("no panic").expect_err("no answer");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::CommitUnknown, false), "{error}");
    pg.finish().await;
}

/// Waits until a count about a session is as expected.
async fn until(pg: &Pg, sql: &'static str, pid: i32, expected: i64) {
    for _ in 0..200 {
        let count: i64 =
            sqlx::query_scalar(sql).bind(pid).fetch_one(&pg.pool).await.expect("a count");
        if count == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still not {expected}: {sql}");
}

#[tokio::test]
async fn pub_6_a_rival_that_the_snapshot_can_not_see_is_transient() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    for isolation in ["begin isolation level repeatable read", "begin isolation level serializable"]
    {
        let mut conn = pg.connection().await;
        let mut tx = conn.begin_with(isolation).await.expect("begins");
        tx.execute("select count(*) from business").await.expect("takes the snapshot");
        let key = Uuid::new_v4().as_u128();
        outbox.publish(keyed(key)).await.expect("the rival commits");
        let mut tx = outbox.adopt(PgTx::from(tx));
        tx.publish(keyed(key)).expect("legal");
        let error = tx.commit().await.expect_err("can not be answered");
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, true), "{error}");
    }
    assert_eq!(ready(&pg).await, 2);
    pg.finish().await;
}

#[tokio::test]
async fn pub_6_a_duplicate_does_not_abort_the_transaction() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let first = outbox.publish(keyed(1)).await.expect("publishes");
    let mut tx = outbox.begin().await.expect("begins");
    tx.publish(keyed(1)).expect("legal");
    assert_eq!(tx.flush().await.expect("a duplicate is success")[0].id, first.id);
    pg.write_business_row(tx.conn(), 1).await;
    tx.publish(plain()).expect("legal");
    tx.commit().await.expect("commits");
    assert_eq!((pg.business_rows().await, ready(&pg).await), (vec![1], 2));
    pg.finish().await;
}

#[tokio::test]
async fn pub_6_a_rival_that_rolls_back_makes_room() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let mut rival = outbox.begin().await.expect("begins");
    rival.publish(keyed(1)).expect("legal");
    rival.flush().await.expect("writes");
    let waiting = tokio::spawn({
        let outbox = outbox.clone();
        async move { outbox.publish(keyed(1)).await }
    });
    let blocked = "select count(*) from pg_locks where not granted and $1 = 0";
    until(&pg, blocked, 0, 1).await;
    rival.rollback().await.expect("rolls back");
    let published = waiting.await.expect("no panic").expect("publishes");
    assert!(!published.already_existed);
    assert_eq!(ready(&pg).await, 1);
    pg.finish().await;
}

#[tokio::test]
async fn b07_without_a_transaction_nothing_is_written() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let mut conn = pg.connection().await;
    let error = outbox.publish_in(&mut conn, plain()).await.expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction, "{error}");
    conn.execute("begin").await.expect("begins");
    conn.execute("select 1/0").await.expect_err("aborts the transaction");
    let error = outbox.publish_in(&mut conn, plain()).await.expect_err("aborted");
    assert_eq!(error.kind(), ErrorKind::RolledBack, "{error}");
    conn.execute("rollback").await.expect("ends it");
    assert_eq!(ready(&pg).await, 0);
    pg.finish().await;
}

/// Polls a future so many times, yielding to the runtime in between, then drops it.
pub(crate) async fn cut_after<F: Future>(polls: usize, future: F) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let mut cx = Context::from_waker(Waker::noop());
        if future.as_mut().poll(&mut cx).is_ready() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_cut_begins_commits_and_claims_leave_no_open_transaction() {
    let pg = Pg::on_database_time().await;
    // A name of its own for the sessions, to find them among those of other tests.
    let options = (*pg.pool.connect_options()).clone().application_name(&pg.schema);
    let pool = PgPoolOptions::new().connect_lazy_with(options);
    let config = StoreConfig { schema: pg.schema.clone(), ..StoreConfig::default() };
    let store = PgStore::new(pool, config).expect("legal names");
    let outbox = Outbox::new(Arc::new(store.clone()));
    let claim = Claim::new(OwnerToken::random(), Duration::from_secs(30), 10).expect("legal");
    for polls in 0..12 {
        // After each cut, because the next use of the connection would hide what was left open.
        cut_after(polls, outbox.begin()).await;
        assert_none_open(&pg, polls).await;
        let mut tx = outbox.begin().await.expect("begins");
        tx.publish(plain()).expect("legal");
        cut_after(polls, tx.commit()).await;
        assert_none_open(&pg, polls).await;
        cut_after(polls, store.claim(&claim)).await;
        assert_none_open(&pg, polls).await;
    }
    outbox.publish(plain()).await.expect("the pool is not damaged");
    pg.finish().await;
}

/// Waits up to 2 s.
async fn assert_none_open(pg: &Pg, polls: usize) {
    let sql = "select count(*) from pg_stat_activity
        where application_name = $1 and state like 'idle in transaction%'";
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let count = sqlx::query_scalar::<_, i64>(sql).bind(&pg.schema);
        if count.fetch_one(&pg.pool).await.expect("a count") == 0 {
            return;
        }
    }
    panic!("a transaction is still open, cut after {polls} polls");
}

#[tokio::test(flavor = "multi_thread")]
async fn b08_a_cut_savepoint_leaves_the_outer_transaction_whole() {
    let pg = Pg::on_database_time().await;
    for polls in 1..4 {
        let mut tx = pg.store.begin().await.expect("begins");
        pg.write_business_row(tx.conn(), 1).await;
        cut_after(polls, tx.savepoint()).await;
        pg.write_business_row(tx.conn(), 2).await;
        tx.check_open(false).await.expect("still open");
        tx.rollback().await.expect("rolls back");
        assert_eq!(pg.business_rows().await, [0; 0], "row 2 was inside the transaction too");
    }
    pg.finish().await;
}

#[tokio::test]
async fn wq_9_the_engine_reads_committed_whatever_the_sessions_default() {
    let pg = Pg::on_database_time().await;
    let options = (*pg.pool.connect_options()).clone();
    let options = options.options([("default_transaction_isolation", "serializable")]);
    let pool = PgPoolOptions::new().connect_lazy_with(options);
    let config = StoreConfig { schema: pg.schema.clone(), ..StoreConfig::default() };
    let store = PgStore::new(pool.clone(), config).expect("legal names");
    Outbox::new(pg.store()).publish_all((0..50).map(|_| plain())).await.expect("publishes");
    let mut claims = JoinSet::new();
    for _ in 0..5 {
        let store = store.clone();
        claims.spawn(async move {
            let claim = Claim::new(OwnerToken::random(), Duration::from_secs(30), 10);
            store.claim(&claim.expect("legal")).await.map(|claimed| claimed.items.len())
        });
    }
    for claimed in claims.join_all().await {
        assert_eq!(claimed.expect("no serialisation failure"), 10);
    }
    let setting = sqlx::query_scalar::<_, String>("show enable_seqscan");
    let setting = setting.fetch_one(&pool).await.expect("a setting");
    assert_eq!(setting, "on", "a session that is not ours keeps its settings");
    pg.finish().await;
}

/// The first try does not look whether a made-up id is there. Who copied it may have been faster.
#[tokio::test]
async fn pub_6_who_lost_a_made_up_id_finds_the_message_at_the_second_try() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let message = Message::builder("t").payload("one").build().expect("legal");
    let copy = Message::builder("t").payload("one").id(message.id());
    outbox.publish(copy).await.expect("publishes");
    let mut tx = outbox.begin().await.expect("begins");
    tx.publish(&message).expect("stages");
    let lost = tx.commit().await.expect_err("the id is taken");
    assert_eq!(lost.kind(), ErrorKind::RolledBack);
    assert!(lost.is_transient(), "{lost}");
    let again = outbox.publish(&message).await.expect("looks first");
    assert_eq!((again.id, again.already_existed), (message.id(), true));
    pg.finish().await;
}

/// A transaction that is not ours survives it, and who publishes in one go does not even notice.
#[tokio::test]
async fn pub_6_a_made_up_id_that_is_taken_spoils_nobody_elses_transaction() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let lost = || async {
        let message = Message::builder("t").payload("one").build().expect("legal");
        let copy = Message::builder("t").payload("one").id(message.id());
        outbox.publish(copy).await.expect("publishes");
        message
    };
    let mut tx = pg.pool.begin().await.expect("begins");
    let published = outbox.publish_in(&mut tx, lost().await).await.expect("looks first");
    assert!(published.already_existed);
    pg.write_business_row(&mut tx, 1).await;
    tx.commit().await.expect("commits");
    assert_eq!(pg.business_rows().await, [1]);
    assert!(outbox.publish(lost().await).await.expect("tries again").already_existed);
    pg.finish().await;
}
