//! Joins where two transactions meet: neither misses the other, and one of them ends the join.

use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    AdminStore, JoinRecord, JoinState, List, Store, TransactionalStore, WorkItem,
};
use postroom_core::{ErrorKind, Join, JoinBuilder, JoinId, Message, Outbox, OwnerToken, WorkQueue};
use postroom_stores::PgStore;
use postroom_testkit::Harness;
use sqlx::postgres::{PgConnection, PgListener};
use sqlx::{Connection, Executor};
use tokio::task::JoinHandle;

use crate::postgres_support::{Pg, run};

fn join_of(members: u32) -> JoinBuilder {
    let join = Join::expecting(members).on_success(Message::builder("all.done"));
    join.on_failure(Message::builder("some.dead"))
}

/// A join, and messages that nobody attached yet, in somebody's hands.
async fn held(pg: &Pg, expected: u32, messages: usize) -> (JoinId, OwnerToken, Vec<WorkItem>) {
    let outbox = Outbox::new(pg.store());
    let mut tx = outbox.begin().await.expect("begins");
    let join = tx.start_join(join_of(expected)).expect("legal");
    for _ in 0..messages {
        tx.publish(Message::builder("t")).expect("legal");
    }
    tx.commit().await.expect("commits");
    let me = OwnerToken::random();
    let claimed = WorkQueue::new(pg.store()).claim(me, Duration::from_secs(30), 100).await;
    let items = claimed.expect("claims").items;
    assert_eq!(items.len(), messages);
    (join, me, items)
}

async fn attach(pg: &Pg, join: JoinId, items: &[WorkItem]) {
    let ids: Vec<_> = items.iter().map(|item| item.message.id()).collect();
    Outbox::new(pg.store()).attach(join, &ids).await.expect("attaches");
}

async fn record(pg: &Pg, join: JoinId) -> JoinRecord {
    pg.store.join(join).await.expect("join").expect("it is there")
}

async fn follow_ups(pg: &Pg, topic: &str) -> usize {
    let list = List { topic: Some(topic.to_owned()), ..List::default() };
    pg.store.list(&list).await.expect("list").records.len()
}

/// Settles in a transaction that stays open, by the function that runs the same statement.
async fn ack_in(conn: &mut PgConnection, me: OwnerToken, item: &WorkItem) {
    let sql = "select outbox_ack($1, array[$2], array[$3])";
    let ack = sqlx::query(sql).bind(me.as_uuid()).bind(item.lease.work.seq());
    ack.bind(item.lease.token.as_uuid()).execute(conn).await.expect("acks");
}

fn settle(pg: &Pg, me: OwnerToken, item: &WorkItem) -> JoinHandle<usize> {
    let (store, done) = (pg.store(), [(item.lease, Settlement::Done)]);
    tokio::spawn(async move { store.settle(me, &done).await.expect("settles").applied })
}

/// Waits until a statement on the tables of this test waits for a lock.
async fn until_somebody_waits(pg: &Pg) {
    let sql = "select count(*) from pg_stat_activity \
        where wait_event_type = 'Lock' and strpos(query, $1) > 0";
    for _ in 0..2_000 {
        let waiting = sqlx::query_scalar::<_, i64>(sql).bind(&pg.schema).fetch_one(&pg.pool).await;
        if waiting.expect("counts") > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_settle_waits_for_an_attach_and_counts() {
    let pg = Pg::on_database_time().await;
    let (join, me, items) = held(&pg, 1, 1).await;
    let mut tx = pg.pool.begin().await.expect("begins");
    let outbox = Outbox::new(pg.store());
    outbox.attach_in(&mut tx, join, &[items[0].message.id()]).await.expect("attaches");
    let settled = settle(&pg, me, &items[0]);
    until_somebody_waits(&pg).await;
    tx.commit().await.expect("commits");
    assert_eq!(settled.await.expect("no panic"), 1);
    assert_eq!(record(&pg, join).await.state, JoinState::Succeeded);
    assert_eq!(follow_ups(&pg, "all.done").await, 1);
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_an_attach_waits_for_a_settle_and_counts_it() {
    let pg = Pg::on_database_time().await;
    let (join, me, items) = held(&pg, 2, 2).await;
    for (item, commits) in [(&items[0], true), (&items[1], false)] {
        let mut conn = pg.connection().await;
        let mut tx = conn.begin().await.expect("begins");
        ack_in(&mut tx, me, item).await;
        let (outbox, id) = (Outbox::new(pg.store()), item.message.id());
        let attached = tokio::spawn(async move { outbox.attach(join, &[id]).await });
        until_somebody_waits(&pg).await;
        match commits {
            true => tx.commit().await.expect("commits"),
            false => tx.rollback().await.expect("rolls back"),
        }
        attached.await.expect("no panic").expect("attaches");
    }
    let JoinRecord { state, attached, done, .. } = record(&pg, join).await;
    assert_eq!((state, attached, done), (JoinState::Open, 2, 1));
    assert_eq!(settle(&pg, me, &items[1]).await.expect("no panic"), 1);
    assert_eq!(follow_ups(&pg, "all.done").await, 1);
    pg.finish().await;
}

/// From the queue to the parked ones, while the attach waits for its row in the queue.
#[tokio::test(flavor = "multi_thread")]
async fn join_1_an_attach_finds_a_message_that_moves() {
    let pg = Pg::on_database_time().await;
    let (join, me, items) = held(&pg, 1, 1).await;
    let mut conn = pg.connection().await;
    let mut tx = conn.begin().await.expect("begins");
    let sql = "select outbox_abandon($1, array[$2], array[$3], 'no', interval '1 h')";
    let abandon = sqlx::query(sql).bind(me.as_uuid()).bind(items[0].lease.work.seq());
    let abandon = abandon.bind(items[0].lease.token.as_uuid());
    abandon.execute(&mut *tx).await.expect("abandons");
    let (outbox, id) = (Outbox::new(pg.store()), items[0].message.id());
    let attached = tokio::spawn(async move { outbox.attach(join, &[id]).await });
    until_somebody_waits(&pg).await;
    tx.commit().await.expect("commits");
    attached.await.expect("no panic").expect("attaches");
    assert_eq!(record(&pg, join).await.attached, 1);
    let discarded = pg.store.discard(&[id]).await.expect("discards");
    assert_eq!(discarded.applied, [id]);
    assert_eq!(follow_ups(&pg, "some.dead").await, 1);
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_replay_waits_for_an_attach_and_uncounts_it() {
    let pg = Pg::on_database_time().await;
    let (join, me, items) = held(&pg, 2, 1).await;
    let queue = WorkQueue::new(pg.store());
    let failed = queue.fail(me, &[items[0].lease], "no").await.expect("fails");
    assert_eq!(failed.applied, 1);
    let id = items[0].message.id();
    let mut tx = pg.pool.begin().await.expect("begins");
    Outbox::new(pg.store()).attach_in(&mut tx, join, &[id]).await.expect("attaches");
    let store = pg.store();
    let replayed = tokio::spawn(async move { store.replay(&[id]).await });
    until_somebody_waits(&pg).await;
    tx.commit().await.expect("commits");
    assert_eq!(replayed.await.expect("no panic").expect("replays").applied, [id]);
    let JoinRecord { attached, dead, .. } = record(&pg, join).await;
    assert_eq!((attached, dead), (1, 0));
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_of_two_last_members_one_ends_the_join() {
    let pg = Pg::on_database_time().await;
    let (join, me, items) = held(&pg, 2, 2).await;
    attach(&pg, join, &items).await;
    let mut conn = pg.connection().await;
    let mut tx = conn.begin().await.expect("begins");
    ack_in(&mut tx, me, &items[0]).await;
    let settled = settle(&pg, me, &items[1]);
    until_somebody_waits(&pg).await;
    tx.commit().await.expect("commits");
    assert_eq!(settled.await.expect("no panic"), 1);
    let JoinRecord { state, done, .. } = record(&pg, join).await;
    assert_eq!((state, done), (JoinState::Succeeded, 2));
    assert_eq!(follow_ups(&pg, "all.done").await, 1);
    pg.finish().await;
}

/// With a snapshot from before the attach a settle could not see that there is a member to count.
#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_settle_with_an_old_snapshot_is_run_again() {
    let pg = Pg::on_database_time().await;
    let (join, me, items) = held(&pg, 1, 1).await;
    let mut conn = pg.connection().await;
    let begin = "begin isolation level repeatable read; select count(*) from business";
    conn.execute(sqlx::raw_sql(begin)).await.expect("takes its snapshot");
    attach(&pg, join, &items).await;
    let settled = pg.store.settle_in(&mut conn, me, items[0].lease).await;
    assert_eq!(settled.expect_err("has an old snapshot").kind(), ErrorKind::Contention);
    conn.execute(sqlx::raw_sql("rollback; begin isolation level repeatable read")).await.expect("");
    assert!(pg.store.settle_in(&mut conn, me, items[0].lease).await.expect("settles"));
    conn.execute(sqlx::raw_sql("commit")).await.expect("commits");
    assert_eq!(record(&pg, join).await.state, JoinState::Succeeded);
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_an_attach_with_an_old_snapshot_is_run_again() {
    let pg = Pg::on_database_time().await;
    let (join, me, items) = held(&pg, 1, 1).await;
    let mut conn = pg.connection().await;
    let begin = "begin isolation level repeatable read; select count(*) from business";
    conn.execute(sqlx::raw_sql(begin)).await.expect("takes its snapshot");
    assert_eq!(settle(&pg, me, &items[0]).await.expect("no panic"), 1);
    let outbox = Outbox::new(pg.store());
    let id = items[0].message.id();
    let attached = outbox.attach_in(&mut conn, join, &[id]).await;
    assert_eq!(attached.expect_err("has an old snapshot").kind(), ErrorKind::Contention);
    conn.execute(sqlx::raw_sql("rollback; begin isolation level repeatable read")).await.expect("");
    outbox.attach_in(&mut conn, join, &[id]).await.expect("attaches");
    conn.execute(sqlx::raw_sql("commit")).await.expect("commits");
    assert_eq!(follow_ups(&pg, "all.done").await, 1);
    pg.finish().await;
}

/// Whoever sleeps in another process is woken by the transaction itself.
#[tokio::test(flavor = "multi_thread")]
async fn join_1_the_end_of_a_join_wakes_dispatchers_of_the_outbox() {
    let pg = Pg::on_database_time().await;
    let inbox: PgStore = pg.store.inbox();
    let arrived = Outbox::new(std::sync::Arc::new(inbox.clone()));
    let (join, _, _) = held(&pg, 1, 0).await;
    let id = arrived.publish(Message::builder("t")).await.expect("publishes").id;
    arrived.attach(join, &[id]).await.expect("attaches");
    let mut listener = PgListener::connect_with(&pg.pool).await.expect("connects");
    listener.listen(pg.store.channel()).await.expect("listens");
    assert_eq!(inbox.discard(&[id]).await.expect("discards").applied, [id]);
    let woken = tokio::time::timeout(Duration::from_secs(30), listener.recv()).await;
    assert_eq!(woken.expect("in time").expect("is told").channel(), pg.store.channel());
    assert_eq!(follow_ups(&pg, "some.dead").await, 1);
    pg.finish().await;
}

/// A database of the version before, with the tables that were never used.
#[tokio::test]
async fn sch_1_joins_come_with_version_4() {
    let pg = Pg::on_database_time().await;
    run(
        &pg.pool,
        "drop table join_tally, join_message, join_follow_up;
        create table join_group (id uuid primary key);
        create table join_member (id uuid primary key);
        drop table outbox_dispatcher, inbox_dispatcher, audit;
        update meta set schema_version = 3, min_client = 3",
    )
    .await;
    let migrated = pg.store.migrate().await.expect("migrates");
    assert_eq!((migrated.from, migrated.to), (3, 7));
    let (join, me, items) = held(&pg, 1, 1).await;
    attach(&pg, join, &items).await;
    assert_eq!(settle(&pg, me, &items[0]).await.expect("no panic"), 1);
    assert_eq!(follow_ups(&pg, "all.done").await, 1);
    pg.finish().await;
}
