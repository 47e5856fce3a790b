//! Order where transactions run side by side.

use std::time::Duration;

use postroom_core::store::{Claim, Store, WorkItem};
use postroom_core::{Message, MessageBuilder, Outbox, OwnerToken, WorkQueue};
use postroom_testkit::Harness;
use sqlx::{Executor, Row};
use uuid::Uuid;

use crate::mysql_support::{My, run};
use crate::own::rivals::{READ_COMMITTED, on_pool};

const LEASE: Duration = Duration::from_secs(30);

fn of(key: &str) -> MessageBuilder {
    Message::builder("t").payload("x").ordering_key(key)
}

async fn claim(my: &My, owner: OwnerToken) -> Vec<WorkItem> {
    let claim = Claim::new(owner, LEASE, 10).expect("legal");
    my.store.claim(&claim).await.expect("claims").items
}

#[tokio::test]
async fn ord_1_a_late_commit_with_a_lower_place_takes_the_next_turn() {
    let my = My::on_database_time().await;
    let (outbox, owner) = (Outbox::new(my.store()), OwnerToken::random());
    let mut late = outbox.begin().await.expect("begins");
    let late_id = late.publish(of("a")).expect("legal");
    late.flush().await.expect("takes its place");
    let early = outbox.publish(of("a")).await.expect("publishes");
    let held = claim(&my, owner).await;
    assert_eq!(held.iter().map(|item| item.message.id()).collect::<Vec<_>>(), [early.id]);
    late.commit().await.expect("commits");
    assert!(claim(&my, owner).await.is_empty(), "another one of its key is held");
    let queue = WorkQueue::new(my.store());
    assert_eq!(queue.ack(owner, &[held[0].lease]).await.expect("acks").applied, 1);
    let next = claim(&my, owner).await;
    assert_eq!(next.iter().map(|item| item.message.id()).collect::<Vec<_>>(), [late_id]);
    my.finish().await;
}

/// Somebody else's claim that is under way keeps its slots, and what it decides counts for those
/// that come after, however old their view of the queue would have been.
#[tokio::test]
async fn ord_1_a_claim_under_way_keeps_its_slots() {
    let my = My::on_database_time().await;
    let (outbox, owner) = (Outbox::new(my.store()), OwnerToken::random());
    outbox.publish(of("a")).await.expect("publishes");
    let mut conn = my.connection().await;
    conn.execute(sqlx::raw_sql(READ_COMMITTED)).await.expect("begins");
    let sql = "call postroom_outbox_claim(?, 30, 1, null)";
    let held = sqlx::query(sql).bind(owner.as_uuid().to_string()).fetch_all(&mut *conn).await;
    assert_eq!(held.expect("claims").len(), 1);
    assert!(claim(&my, OwnerToken::random()).await.is_empty());
    conn.execute("commit").await.expect("commits");
    assert!(claim(&my, owner).await.is_empty());
    assert!(claim(&my, OwnerToken::random()).await.is_empty());
    drop(conn);
    my.finish().await;
}

/// Two workers claim again and again: no key is in two hands at once.
#[tokio::test(flavor = "multi_thread")]
async fn ord_1_workers_side_by_side_share_the_keys() {
    let my = My::on_database_time().await;
    let messages = (0..200).map(|n| of(&format!("key {}", n % 40)));
    let published = Outbox::new(my.store()).publish_all(messages).await.expect("publishes");
    let work = async |owner: OwnerToken| {
        let queue = WorkQueue::new(on_pool(my.pool.clone()));
        let mut done = Vec::new();
        let mut idle = 0;
        while idle < 200 {
            let items = queue.claim(owner, LEASE, 10).await.expect("claims").items;
            idle = if items.is_empty() { idle + 1 } else { 0 };
            for item in items {
                let key = item.message.ordering_key().expect("ordered").to_string();
                let settled = queue.ack(owner, &[item.lease]).await.expect("acks");
                assert_eq!(settled.applied, 1);
                done.push((key, item.lease.work.seq()));
            }
            let left = sqlx::query_scalar("select count(*) from postroom_outbox_ordered");
            if left.fetch_one(&my.pool).await.ok() == Some(0_i64) {
                break;
            }
        }
        done
    };
    let (one, two) = tokio::join!(work(OwnerToken::random()), work(OwnerToken::random()));
    assert_eq!(one.len() + two.len(), published.len());
    for worker in [one, two] {
        let mut last = std::collections::HashMap::new();
        for (key, seq) in worker {
            let before = last.insert(key.clone(), seq);
            assert!(before.is_none_or(|before| before < seq), "{key} out of order");
        }
    }
    my.finish().await;
}

/// Twenty thousand rows behind a key that waits: a claim of others reads none of them.
#[tokio::test]
async fn wq_11_what_waits_behind_a_key_costs_a_claim_nothing() {
    let my = My::on_database_time().await;
    Outbox::new(my.store()).publish(of("a")).await.expect("publishes");
    let sql = "insert into postroom_outbox_ordered
            (slot, key_hash, seq, id, topic_hash, priority)
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 150)
        select slot, key_hash, seq + 150 * a.i + b.i, id, topic_hash, 0
        from postroom_outbox_ordered cross join n as a cross join n as b;
        update postroom_outbox_ordered set locked_until = 9000000000000000
        order by seq limit 1";
    run(&my.pool, sql).await;
    let mut conn = my.connection().await;
    let read = async |conn: &mut sqlx::mysql::MySqlConnection| {
        let rows = sqlx::raw_sql("show session status like 'Handler_read%'").fetch_all(conn).await;
        let rows = rows.expect("figures");
        rows.iter().map(|row| row.get::<String, _>(1).parse::<u64>().expect("n")).sum::<u64>()
    };
    let before = read(&mut conn).await;
    let sql = "call postroom_outbox_run_claim_ordered(
        null, ?, ?, 30000000, 10, 1, 10, null, null, null, null, false
    )";
    let claim = sqlx::query(sql).bind(Uuid::new_v4()).bind(Uuid::new_v4());
    let rows = claim.fetch_all(&mut *conn).await.expect("claims");
    assert_eq!(rows.len(), 1, "a summary, and no item: it waits");
    let read = read(&mut conn).await - before;
    assert!(read < 5_000, "{read} rows were read");
    drop(conn);
    my.finish().await;
}
