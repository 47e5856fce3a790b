//! Joins where two transactions meet: neither misses the other, and one of them ends the join.

use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    AdminStore, JoinRecord, JoinState, List, Store, TransactionalStore, WorkItem,
};
use postroom_core::{Join, JoinBuilder, JoinId, Message, Outbox, OwnerToken, WorkQueue};
use postroom_testkit::Harness;
use sqlx::Executor;
use sqlx::mysql::MySqlConnection;
use tokio::task::JoinHandle;

use crate::mysql_support::My;
use crate::own::rivals::{READ_COMMITTED, until_waiting};

fn join_of(members: u32) -> JoinBuilder {
    let join = Join::expecting(members).on_success(Message::builder("all.done"));
    join.on_failure(Message::builder("some.dead"))
}

/// A join, and messages that nobody attached yet, in somebody's hands.
async fn held(my: &My, expected: u32, messages: usize) -> (JoinId, OwnerToken, Vec<WorkItem>) {
    let outbox = Outbox::new(my.store());
    let mut tx = outbox.begin().await.expect("begins");
    let join = tx.start_join(join_of(expected)).expect("legal");
    for _ in 0..messages {
        tx.publish(Message::builder("t")).expect("legal");
    }
    tx.commit().await.expect("commits");
    let me = OwnerToken::random();
    let claimed = WorkQueue::new(my.store()).claim(me, Duration::from_secs(30), 100).await;
    let items = claimed.expect("claims").items;
    assert_eq!(items.len(), messages);
    (join, me, items)
}

async fn attach(my: &My, join: JoinId, items: &[WorkItem]) {
    let ids: Vec<_> = items.iter().map(|item| item.message.id()).collect();
    Outbox::new(my.store()).attach(join, &ids).await.expect("attaches");
}

async fn record(my: &My, join: JoinId) -> JoinRecord {
    my.store.join(join).await.expect("join").expect("it is there")
}

async fn follow_ups(my: &My, topic: &str) -> usize {
    let list = List { topic: Some(topic.to_owned()), ..List::default() };
    my.store.list(&list).await.expect("list").records.len()
}

/// Settles in the transaction of this session, by a procedure for any language.
async fn settle_in(conn: &mut MySqlConnection, sql: &'static str, me: OwnerToken, of: &WorkItem) {
    let (seq, token) = (of.lease.work.seq(), of.lease.token.as_uuid());
    let items = format!("[[{seq}, \"{token}\"]]");
    let settle = sqlx::query(sql).bind(me.as_uuid().to_string()).bind(items);
    assert_eq!(settle.fetch_all(conn).await.expect("settles").len(), 1, "{sql}");
}

const ACK: &str = "call postroom_outbox_ack(?, ?, null)";

fn settle(my: &My, me: OwnerToken, item: &WorkItem) -> JoinHandle<usize> {
    let (store, done) = (my.store(), [(item.lease, Settlement::Done)]);
    tokio::spawn(async move { store.settle(me, &done).await.expect("settles").applied })
}

async fn begun(my: &My) -> sqlx::pool::PoolConnection<sqlx::MySql> {
    let mut conn = my.connection().await;
    conn.execute(sqlx::raw_sql(READ_COMMITTED)).await.expect("begins");
    conn
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_settle_waits_for_an_attach_and_counts() {
    let my = My::on_database_time().await;
    let (join, me, items) = held(&my, 1, 1).await;
    let mut tx = my.pool.begin().await.expect("begins");
    let outbox = Outbox::new(my.store());
    outbox.attach_in(&mut tx, join, &[items[0].message.id()]).await.expect("attaches");
    let settled = settle(&my, me, &items[0]);
    until_waiting(&my, 1).await;
    tx.commit().await.expect("commits");
    assert_eq!(settled.await.expect("no panic"), 1);
    assert_eq!(record(&my, join).await.state, JoinState::Succeeded);
    assert_eq!(follow_ups(&my, "all.done").await, 1);
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_an_attach_waits_for_a_settle_and_counts_it() {
    let my = My::on_database_time().await;
    let (join, me, items) = held(&my, 2, 2).await;
    for (item, end) in [(&items[0], "commit"), (&items[1], "rollback")] {
        let mut tx = begun(&my).await;
        settle_in(&mut tx, ACK, me, item).await;
        let (outbox, id) = (Outbox::new(my.store()), item.message.id());
        let attached = tokio::spawn(async move { outbox.attach(join, &[id]).await });
        until_waiting(&my, 1).await;
        tx.execute(end).await.expect("ends");
        attached.await.expect("no panic").expect("attaches");
    }
    let JoinRecord { state, attached, done, .. } = record(&my, join).await;
    assert_eq!((state, attached, done), (JoinState::Open, 2, 1));
    assert_eq!(settle(&my, me, &items[1]).await.expect("no panic"), 1);
    assert_eq!(follow_ups(&my, "all.done").await, 1);
    my.finish().await;
}

/// From the queue to the parked ones, while the attach waits for its row in the queue.
#[tokio::test(flavor = "multi_thread")]
async fn join_1_an_attach_finds_a_message_that_moves() {
    let my = My::on_database_time().await;
    let (join, me, items) = held(&my, 1, 1).await;
    let mut tx = begun(&my).await;
    let abandon = "call postroom_outbox_abandon(?, ?, '{\"delay_seconds\": 3600}')";
    settle_in(&mut tx, abandon, me, &items[0]).await;
    let (outbox, id) = (Outbox::new(my.store()), items[0].message.id());
    let attached = tokio::spawn(async move { outbox.attach(join, &[id]).await });
    until_waiting(&my, 1).await;
    tx.execute("commit").await.expect("commits");
    attached.await.expect("no panic").expect("attaches");
    assert_eq!(record(&my, join).await.attached, 1);
    assert_eq!(my.store.discard(&[id]).await.expect("discards").applied, [id]);
    assert_eq!(follow_ups(&my, "some.dead").await, 1);
    drop(tx);
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_replay_waits_for_an_attach_and_uncounts_it() {
    let my = My::on_database_time().await;
    let (join, me, items) = held(&my, 2, 1).await;
    let failed = WorkQueue::new(my.store()).fail(me, &[items[0].lease], "no").await;
    assert_eq!(failed.expect("fails").applied, 1);
    let id = items[0].message.id();
    let mut tx = my.pool.begin().await.expect("begins");
    Outbox::new(my.store()).attach_in(&mut tx, join, &[id]).await.expect("attaches");
    let store = my.store();
    let replayed = tokio::spawn(async move { store.replay(&[id]).await });
    until_waiting(&my, 1).await;
    tx.commit().await.expect("commits");
    assert_eq!(replayed.await.expect("no panic").expect("replays").applied, [id]);
    let JoinRecord { attached, dead, .. } = record(&my, join).await;
    assert_eq!((attached, dead), (1, 0));
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_of_two_last_members_one_ends_the_join() {
    let my = My::on_database_time().await;
    let (join, me, items) = held(&my, 2, 2).await;
    attach(&my, join, &items).await;
    let mut tx = begun(&my).await;
    settle_in(&mut tx, ACK, me, &items[0]).await;
    let settled = settle(&my, me, &items[1]);
    until_waiting(&my, 1).await;
    tx.execute("commit").await.expect("commits");
    assert_eq!(settled.await.expect("no panic"), 1);
    let JoinRecord { state, done, .. } = record(&my, join).await;
    assert_eq!((state, done), (JoinState::Succeeded, 2));
    assert_eq!(follow_ups(&my, "all.done").await, 1);
    drop(tx);
    my.finish().await;
}

/// The default of the server: a settle sees members that were attached after its snapshot, and an
/// attach sees what was settled after it.
#[tokio::test(flavor = "multi_thread")]
async fn join_1_an_old_snapshot_misses_nothing() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    for settles_late in [true, false] {
        let (join, me, items) = held(&my, 1, 1).await;
        let mut conn = my.connection().await;
        conn.execute("start transaction").await.expect("begins");
        conn.execute("select count(*) from business").await.expect("takes its snapshot");
        if settles_late {
            attach(&my, join, &items).await;
            let settled = my.store.settle_in(&mut conn, me, items[0].lease).await;
            assert!(settled.expect("settles"));
        } else {
            assert_eq!(settle(&my, me, &items[0]).await.expect("no panic"), 1);
            let id = items[0].message.id();
            outbox.attach_in(&mut conn, join, &[id]).await.expect("attaches");
        }
        conn.execute("commit").await.expect("commits");
        assert_eq!(record(&my, join).await.state, JoinState::Succeeded, "{settles_late}");
        // It is not to be claimed as one of the next ones.
        let ended = WorkQueue::new(my.store()).claim(me, Duration::from_secs(30), 10).await;
        let ended = ended.expect("claims").items;
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].message.topic().as_str(), "all.done");
    }
    my.finish().await;
}
