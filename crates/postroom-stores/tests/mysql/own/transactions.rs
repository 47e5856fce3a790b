//! The ends that a transaction can come to. A deadlock rolls back all of it, and the driver does
//! not know.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{Claim, Store, StoreTransaction, TransactionalStore};
use postroom_core::{
    ErrorKind, Inbox, Join, Message, MessageBuilder, MessageId, Once, Outbox, OwnerToken, Published,
};
use postroom_stores::MySqlStore;
use postroom_stores::mysql::MySqlTx;
use postroom_testkit::Harness;
use sqlx::{Connection, Executor};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::mysql_support::My;
use crate::own::rivals::{
    count, is_there, kill, make_victim, on_pool, open_transactions, plain_pool, ready, session_of,
    until_waiting, with_contested_rows,
};

fn plain() -> MessageBuilder {
    Message::builder("order.placed").payload("{}")
}

fn keyed(n: u128) -> MessageBuilder {
    plain().idempotency_key(Uuid::from_u128(n))
}

async fn assert_nothing_is_there(my: &My) {
    assert_eq!(ready(my).await, 0);
    assert!(my.business_rows().await.is_empty());
    assert_eq!(count(my, "select count(*) from postroom_outbox_message").await, 0);
    assert_eq!(count(my, "select count(*) from postroom_outbox_key").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_a_deadlock_victim_learns_it_at_commit_and_nothing_is_written() {
    let my = with_contested_rows().await;
    let outbox = Outbox::new(my.store());
    for (before, after) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut tx = outbox.begin().await.expect("begins");
        my.write_business_row(tx.conn(), 1).await;
        if before {
            tx.publish(keyed(1)).expect("legal");
            tx.flush().await.expect("writes");
        }
        make_victim(&my, tx.conn()).await;
        assert!(tx.conn().is_in_transaction(), "the driver believes so");
        if after {
            tx.publish(plain()).expect("legal");
        }
        let error = tx.commit().await.expect_err("the server has ended it");
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, true), "{error}");
        assert_nothing_is_there(&my).await;
    }
    outbox.publish(plain()).await.expect("the connection is whole");
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_a_flush_after_a_deadlock_writes_nothing() {
    let my = with_contested_rows().await;
    let mut tx = Outbox::new(my.store()).begin().await.expect("begins");
    make_victim(&my, tx.conn()).await;
    tx.publish(plain()).expect("legal");
    for _ in 0..2 {
        let error = tx.flush().await.expect_err("the server has ended it");
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, true), "{error}");
    }
    drop(tx);
    assert_nothing_is_there(&my).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_a_deadlock_inside_a_savepoint_ends_the_outer_transaction_too() {
    let my = with_contested_rows().await;
    let outbox = Outbox::new(my.store());
    for released in [true, false] {
        let mut tx = outbox.begin().await.expect("begins");
        my.write_business_row(tx.conn(), 1).await;
        tx.publish(plain()).expect("legal");
        let mut inner = tx.savepoint().await.expect("a savepoint");
        make_victim(&my, inner.conn()).await;
        inner.publish(plain()).expect("legal");
        let ended = match released {
            true => inner.release().await,
            false => inner.rollback().await,
        };
        let ended = ended.expect_err("the savepoint is gone");
        assert_eq!((ended.kind(), ended.is_transient()), (ErrorKind::RolledBack, true), "{ended}");
        let error = tx.commit().await.expect_err("and so is the transaction");
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, true), "{error}");
        assert_nothing_is_there(&my).await;
    }
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_a_transaction_that_was_adopted_is_guarded_too() {
    let my = with_contested_rows().await;
    let outbox = Outbox::new(my.store());
    let tx = my.pool.begin().await.expect("begins");
    let mut tx = outbox.adopt(MySqlTx::adopt(tx).await.expect("adopts"));
    make_victim(&my, tx.conn()).await;
    tx.publish(plain()).expect("legal");
    let error = tx.commit().await.expect_err("the server has ended it");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, true), "{error}");
    assert_nothing_is_there(&my).await;
    my.finish().await;
}

/// Whatever of ours comes after the deadlock would commit by itself.
#[tokio::test(flavor = "multi_thread")]
async fn b07_after_a_deadlock_nothing_is_written_in_a_plain_transaction() {
    let my = with_contested_rows().await;
    let outbox = Outbox::new(my.store());
    let inbox = Inbox::new(&outbox, "billing").expect("legal");
    let held = outbox.publish(plain()).await.expect("publishes");
    let claim = Claim::new(OwnerToken::random(), Duration::from_secs(30), 1).expect("legal");
    let item = my.store.claim(&claim).await.expect("claims").items.remove(0);
    let join = Join::expecting(1).on_success(plain());
    let mut setup = outbox.begin().await.expect("begins");
    let join = setup.start_join(join).expect("legal");
    setup.commit().await.expect("commits");

    let mut tx = my.pool.begin().await.expect("begins");
    my.write_business_row(&mut tx, 1).await;
    make_victim(&my, &mut tx).await;
    let refusals = [
        outbox.publish_in(&mut tx, plain()).await.map(drop),
        outbox.publish_in(&mut tx, keyed(1)).await.map(drop),
        outbox.publish_in(&mut tx, plain().ordering_key("a")).await.map(drop),
        outbox.attach_in(&mut tx, join, &[held.id]).await,
        inbox.once(&mut tx, "shop", "1").await.map(drop),
        my.store.settle_in(&mut tx, claim.owner(), item.lease).await.map(drop),
    ];
    for (place, refusal) in refusals.into_iter().enumerate() {
        let error = refusal.expect_err("no transaction");
        assert_eq!(error.kind(), ErrorKind::NotInTransaction, "{place}: {error}");
    }
    tx.commit().await.expect("there is nothing to commit");
    assert!(my.business_rows().await.is_empty());
    assert_eq!(count(&my, "select count(*) from postroom_outbox_message").await, 1);
    assert_eq!(count(&my, "select count(*) from postroom_inbox_key").await, 0);
    assert_eq!(count(&my, "select count(*) from postroom_outbox_queue where leased = 1").await, 1);
    assert_eq!(count(&my, "select count(*) from postroom_join_message").await, 0);
    my.finish().await;
}

#[tokio::test]
async fn b07_without_a_transaction_nothing_is_written() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let mut conn = my.connection().await;
    let error = outbox.publish_in(&mut conn, plain()).await.expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction, "{error}");
    // Outside a transaction these do nothing, and must not look like one.
    conn.execute("savepoint mine").await.expect("is accepted");
    let error = outbox.publish_in(&mut conn, plain()).await.expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction, "{error}");
    assert_nothing_is_there(&my).await;
    drop(conn);
    my.finish().await;
}

/// As other clients do it: there every statement is in a transaction.
#[tokio::test]
async fn pub_1_a_session_without_autocommit_publishes_in_its_transaction() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let mut conn = my.connection().await;
    conn.execute("set session autocommit = 0").await.expect("a setting");
    for (end, rows) in [("rollback", 0), ("commit", 1)] {
        my.write_business_row(&mut conn, 1).await;
        outbox.publish_in(&mut conn, plain()).await.expect("publishes");
        conn.execute(end).await.expect("ends");
        assert_eq!((ready(&my).await, my.business_rows().await.len()), (rows, rows as usize));
    }
    conn.close().await.expect("it has a setting of its own");
    my.finish().await;
}

#[tokio::test]
async fn pub_6_a_duplicate_does_not_spoil_the_transaction() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let first = outbox.publish(keyed(1)).await.expect("publishes");
    let mut tx = outbox.begin().await.expect("begins");
    tx.publish(keyed(1)).expect("legal");
    assert_eq!(tx.flush().await.expect("a duplicate is success")[0].id, first.id);
    my.write_business_row(tx.conn(), 1).await;
    tx.publish(plain()).expect("legal");
    tx.commit().await.expect("commits");
    assert_eq!((my.business_rows().await, ready(&my).await), (vec![1], 2));
    my.finish().await;
}

/// At every isolation level: the look is a locking read, which sees what is committed.
#[tokio::test]
async fn pub_6_a_rival_that_the_snapshot_can_not_see_is_seen() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let inbox = Inbox::new(&outbox, "billing").expect("legal");
    for isolation in ["repeatable read", "serializable", "read committed"] {
        let mut conn = my.connection().await;
        let begin = format!("set transaction isolation level {isolation}; start transaction");
        let begin = sqlx::raw_sql(sqlx::AssertSqlSafe(begin));
        conn.execute(begin).await.expect("begins");
        conn.execute("select count(*) from business").await.expect("takes the snapshot");
        let key = Uuid::new_v4().as_u128();
        let rival = outbox.publish(keyed(key)).await.expect("the rival commits");
        let mut tx = outbox.begin().await.expect("begins");
        let once = inbox.once(tx.conn(), "shop", isolation).await.expect("once");
        assert_eq!(once, Once::First);
        tx.commit().await.expect("commits");

        let second = outbox.publish_in(&mut conn, keyed(key)).await.expect("a duplicate");
        assert_eq!((second.id, second.already_existed), (rival.id, true), "{isolation}");
        let once = inbox.once(&mut conn, "shop", isolation).await.expect("a duplicate");
        assert_eq!(once, Once::Duplicate, "{isolation}");
        conn.execute("commit").await.expect("commits");
    }
    assert_eq!(ready(&my).await, 3);
    my.finish().await;
}

/// The same message by its id, with a key and without one: what the caller's snapshot has no place
/// of is not half of something that the caller began.
#[tokio::test]
async fn pub_6_a_rival_with_the_same_id_that_the_snapshot_can_not_see_is_seen() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    for isolation in ["repeatable read", "serializable", "read committed"] {
        let mut conn = my.connection().await;
        let begin = format!("set transaction isolation level {isolation}; start transaction");
        let begin = sqlx::raw_sql(sqlx::AssertSqlSafe(begin));
        conn.execute(begin).await.expect("begins");
        conn.execute("select count(*) from business").await.expect("takes the snapshot");
        let unkeyed = || Message::builder("t").payload("{}").id(MessageId::new());
        let keyed = unkeyed().idempotency_key(Uuid::new_v4());
        let messages = [unkeyed(), keyed].map(|message| message.build().expect("legal"));
        outbox.publish_all(messages.clone()).await.expect("the rival commits");
        for message in messages {
            let second = outbox.publish_in(&mut conn, message.clone()).await.expect("a duplicate");
            let answer = (second.id, second.already_existed, second.same_content);
            assert_eq!(answer, (message.id(), true, true), "{isolation}");
        }
        conn.execute("commit").await.expect("commits");
    }
    assert_eq!(ready(&my).await, 6);
    my.finish().await;
}

/// Publishes until no deadlock is in the way; how often it was.
async fn publish_again(outbox: &Outbox<MySqlStore>, key: u128) -> (Published, u32) {
    for victims in 0..20 {
        match outbox.publish(keyed(key)).await {
            Ok(published) => return (published, victims),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
    panic!("a victim for ever");
}

/// One that has written the key, and fifteen that wait for its end.
#[tokio::test(flavor = "multi_thread")]
async fn pub_6_sixteen_publishers_of_a_key_leave_one_message() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(on_pool(plain_pool(&my)));
    for commits in [true, false] {
        let key = Uuid::new_v4().as_u128();
        let mut first = outbox.begin().await.expect("begins");
        let first_id = first.publish(keyed(key)).expect("legal");
        first.flush().await.expect("writes");
        let mut others = JoinSet::new();
        for _ in 0..15 {
            let outbox = outbox.clone();
            others.spawn(async move { publish_again(&outbox, key).await });
        }
        until_waiting(&my, 15).await;
        match commits {
            true => drop(first.commit().await.expect("commits")),
            false => first.rollback().await.expect("rolls back"),
        }
        let others = others.join_all().await;
        let ids: BTreeSet<_> = others.iter().map(|(published, _)| published.id).collect();
        let new = others.iter().filter(|(published, _)| !published.already_existed).count();
        assert_eq!((ids.len(), new), (1, usize::from(!commits)), "{others:?}");
        assert_eq!(ids.contains(&first_id), commits);
        let victims: u32 = others.iter().map(|(_, victims)| victims).sum();
        assert!(!commits || victims == 0, "no deadlock where nobody rolls back: {victims}");
    }
    assert_eq!(ready(&my).await, 2, "one message of each key");
    my.finish().await;
}

async fn once_again(inbox: &Inbox<MySqlStore>, id: String) -> Once {
    for _ in 0..20 {
        let mut tx = inbox.outbox().begin().await.expect("begins");
        match inbox.once(tx.conn(), "shop", id.as_str()).await {
            Ok(once) => {
                tx.commit().await.expect("commits");
                return once;
            }
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
    panic!("a victim for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_4_sixteen_consumers_of_a_message_have_one_effect() {
    let my = My::on_database_time().await;
    let inbox = Inbox::new(&Outbox::new(on_pool(plain_pool(&my))), "billing").expect("legal");
    for commits in [true, false] {
        let id = format!("message {commits}");
        let mut first = inbox.outbox().begin().await.expect("begins");
        let once = inbox.once(first.conn(), "shop", id.as_str()).await.expect("once");
        assert_eq!(once, Once::First);
        let mut others = JoinSet::new();
        for _ in 0..15 {
            let (inbox, id) = (inbox.clone(), id.clone());
            others.spawn(async move { once_again(&inbox, id).await });
        }
        until_waiting(&my, 15).await;
        match commits {
            true => drop(first.commit().await.expect("commits")),
            false => first.rollback().await.expect("rolls back"),
        }
        let others = others.join_all().await;
        let firsts = others.iter().filter(|once| **once == Once::First).count();
        assert_eq!(firsts, usize::from(!commits), "{others:?}");
    }
    my.finish().await;
}

#[tokio::test]
async fn f03_a_connection_killed_inside_a_transaction_leaves_nothing() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let mut tx = outbox.begin().await.expect("begins");
    my.write_business_row(tx.conn(), 1).await;
    let flushed = tx.publish(plain()).expect("legal");
    tx.flush().await.expect("writes");
    let session = session_of(tx.conn()).await;
    kill(&my, session).await;
    let staged = tx.publish(plain()).expect("legal");
    let error = tx.commit().await.expect_err("the connection is gone");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unavailable, true), "{error}");
    assert!(!is_there(&my, flushed).await && !is_there(&my, staged).await);
    assert_nothing_is_there(&my).await;
    outbox.publish(plain()).await.expect("the pool heals");
    my.finish().await;
}

/// A savepoint that is cut short must not end the transaction around it.
#[tokio::test(flavor = "multi_thread")]
async fn b08_a_cut_savepoint_leaves_the_outer_transaction_whole() {
    let my = My::on_database_time().await;
    for polls in 1..4 {
        let mut tx = my.store.begin().await.expect("begins");
        my.write_business_row(tx.conn(), 1).await;
        crate::own::commits::cut_after(polls, tx.savepoint()).await;
        my.write_business_row(tx.conn(), 2).await;
        tx.check_open(false).await.expect("still open");
        tx.rollback().await.expect("rolls back");
        assert!(my.business_rows().await.is_empty(), "row 2 was inside the transaction too");
    }
    my.finish().await;
}

/// After each cut, because the next use of a connection would hide what was left open.
#[tokio::test(flavor = "multi_thread")]
async fn b08_cut_begins_commits_and_claims_leave_no_open_transaction() {
    let my = My::on_database_time().await;
    let store = on_pool(plain_pool(&my));
    let outbox = Outbox::new(Arc::clone(&store));
    let claim = Claim::new(OwnerToken::random(), Duration::from_secs(30), 10).expect("legal");
    for polls in 0..12 {
        crate::own::commits::cut_after(polls, outbox.begin()).await;
        assert_none_open(&my, polls).await;
        let mut tx = outbox.begin().await.expect("begins");
        tx.publish(plain()).expect("legal");
        crate::own::commits::cut_after(polls, tx.commit()).await;
        assert_none_open(&my, polls).await;
        crate::own::commits::cut_after(polls, store.claim(&claim)).await;
        assert_none_open(&my, polls).await;
    }
    outbox.publish(plain()).await.expect("the pool is not damaged");
    my.finish().await;
}

/// Waits up to 20 s.
async fn assert_none_open(my: &My, polls: usize) {
    for _ in 0..1_000 {
        if open_transactions(my).await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a transaction is still open, cut after {polls} polls");
}
