//! Order where transactions run side by side.

use std::time::Duration;

use postroom_core::store::{Claim, Store, WorkItem};
use postroom_core::{Message, MessageBuilder, Outbox, OwnerToken, WorkQueue};
use postroom_testkit::Harness;
use sqlx::Connection;

use crate::postgres_support::{Pg, run};

const LEASE: Duration = Duration::from_secs(30);

fn of(key: &str) -> MessageBuilder {
    Message::builder("t").payload("x").ordering_key(key)
}

async fn claim(pg: &Pg, owner: OwnerToken) -> Vec<WorkItem> {
    let claim = Claim::new(owner, LEASE, 10).expect("legal");
    pg.store.claim(&claim).await.expect("claims").items
}

#[tokio::test]
async fn ord_1_a_late_commit_with_a_lower_place_takes_the_next_turn() {
    let pg = Pg::on_database_time().await;
    let (outbox, owner) = (Outbox::new(pg.store()), OwnerToken::random());
    let mut late = outbox.begin().await.expect("begins");
    let late_id = late.publish(of("a")).expect("legal");
    late.flush().await.expect("takes its place");
    let early = outbox.publish(of("a")).await.expect("publishes");
    let held = claim(&pg, owner).await;
    assert_eq!(held.iter().map(|item| item.message.id()).collect::<Vec<_>>(), [early.id]);
    late.commit().await.expect("commits");
    assert!(claim(&pg, owner).await.is_empty(), "another one of its key is held");
    let queue = WorkQueue::new(pg.store());
    assert_eq!(queue.ack(owner, &[held[0].lease]).await.expect("acks").applied, 1);
    let next = claim(&pg, owner).await;
    assert_eq!(next.iter().map(|item| item.message.id()).collect::<Vec<_>>(), [late_id]);
    pg.finish().await;
}

/// Somebody else's claim that is under way keeps its slots, and what it decides counts for those
/// that come after, however old their view of the queue would have been.
#[tokio::test]
async fn ord_1_a_claim_under_way_keeps_its_slots() {
    let pg = Pg::on_database_time().await;
    let (outbox, owner) = (Outbox::new(pg.store()), OwnerToken::random());
    outbox.publish(of("a")).await.expect("publishes");
    let mut conn = pg.connection().await;
    let mut tx = conn.begin().await.expect("begins");
    let sql = "select count(*) from outbox_claim($1, batch => 1)";
    let count = sqlx::query_scalar::<_, i64>(sql).bind(owner.as_uuid());
    assert_eq!(count.fetch_one(&mut *tx).await.expect("claims"), 1);
    assert!(claim(&pg, OwnerToken::random()).await.is_empty());
    tx.commit().await.expect("commits");
    assert!(claim(&pg, owner).await.is_empty());
    pg.finish().await;
}

#[tokio::test]
async fn ord_1_ordered_messages_are_claimed_at_read_committed_only() {
    let pg = Pg::on_database_time().await;
    Outbox::new(pg.store()).publish(of("a")).await.expect("publishes");
    let mut conn = pg.connection().await;
    let mut tx = conn.begin_with("begin isolation level repeatable read").await.expect("begins");
    let sql = "select count(*) from outbox_claim(gen_random_uuid())";
    let refused = sqlx::query(sql).execute(&mut *tx).await.expect_err("an old view misleads");
    assert!(refused.to_string().contains("read committed"), "{refused}");
    drop(tx);
    pg.finish().await;
}

/// A hundred thousand rows behind a key that waits: a claim of others reads none of them.
#[tokio::test]
async fn wq_11_what_waits_behind_a_key_costs_a_claim_nothing() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let first = outbox.publish(of("a")).await.expect("publishes");
    let work = first.work.expect("new").seq();
    run(
        &pg.pool,
        "insert into outbox_queue (seq, id, topic_hash, attempts, lost, priority, slot, key_hash)
        select seq + number, gen_random_uuid(), topic_hash, 0, 0, 0, slot, key_hash
        from outbox_queue, generate_series(1, 100000) as number",
    )
    .await;
    run(&pg.pool, "analyze outbox_queue_ordered").await;
    let waits = "update outbox_queue set locked_until = now() + interval '1 h' where seq = $1";
    sqlx::query(waits).bind(work).execute(&pg.pool).await.expect("waits");
    let fetched = async || {
        // What a session has read is told when it is idle again.
        run(&pg.pool, "select pg_stat_force_next_flush()").await;
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let sql = "select idx_tup_fetch + seq_tup_read from pg_stat_user_tables \
            where relname = 'outbox_queue_ordered' and schemaname = current_schema()";
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&pg.pool).await.expect("statistics")
    };
    let before = fetched().await;
    let owner = OwnerToken::random();
    assert!(claim(&pg, owner).await.is_empty(), "it waits");
    let read = fetched().await - before;
    assert!(read < 1_000, "{read} rows were read");
    pg.finish().await;
}
