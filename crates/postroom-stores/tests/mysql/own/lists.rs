//! What people look at is found by indexes.

use std::sync::Arc;

use postroom_core::store::{AdminStore, List, Status};
use postroom_core::{Message, Outbox};
use postroom_stores::MySqlStore;
use postroom_testkit::Harness;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};

use crate::mysql_support::{My, run};
use crate::own::claims::{fill, rows_read};
use crate::own::rivals::on_pool;

/// A store with one session, which counts what it reads.
fn counted(my: &My) -> (Arc<MySqlStore>, MySqlPool) {
    let pool = MySqlPoolOptions::new()
        .max_connections(1)
        .connect_lazy_with((*my.pool.connect_options()).clone());
    (on_pool(pool.clone()), pool)
}

#[tokio::test(flavor = "multi_thread")]
async fn adm_1_lists_by_aggregate_and_ordering_key_read_what_they_find() {
    let my = My::on_database_time().await;
    fill(&my, 0).await;
    let (store, pool) = counted(&my);
    let message = Message::builder("t").aggregate("order", "7").ordering_key("k");
    let id = Outbox::new(Arc::clone(&store)).publish(message).await.expect("publishes").id;
    let [kind, order, key] = ["order", "7", "k"].map(|text| Some(text.to_owned()));
    let lists = [
        List { aggregate_type: kind, aggregate_id: order, ..List::default() },
        List { ordering_key: key, ..List::default() },
    ];
    for list in lists {
        // Alone, and with a filter for which each message is looked at.
        for tenant in [None, Some("nobody".to_owned())] {
            let expected = if tenant.is_none() { vec![id] } else { Vec::new() };
            let list = List { tenant, ..list.clone() };
            let before = rows_read(&pool).await;
            let page = store.list(&list).await.expect("lists");
            let read = rows_read(&pool).await - before;
            let found: Vec<_> = page.records.iter().map(|record| record.id).collect();
            assert_eq!((found, page.next), (expected, None));
            assert!(read < 1_000, "{list:?} read {read} rows of 22,500");
        }
    }
    pool.close().await;
    my.finish().await;
}

/// 45,000 rows are live, and a page of them looks at the last few.
#[tokio::test(flavor = "multi_thread")]
async fn adm_1_lists_of_live_messages_do_not_sort_them_all() {
    let my = My::on_database_time().await;
    fill(&my, 0).await;
    let (store, pool) = counted(&my);
    let list = List { status: Some(Status::Pending), limit: 10, ..List::default() };
    let before = rows_read(&pool).await;
    let page = store.list(&list).await.expect("lists");
    let read = rows_read(&pool).await - before;
    assert_eq!((page.records.len(), page.next.is_some()), (10, true));
    assert!(read < 10_000, "read {read} rows of 45,000");
    pool.close().await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn adm_1_what_people_look_at_reads_nothing_that_is_done() {
    let my = My::on_database_time().await;
    fill(&my, 0).await;
    run(&my.pool, "delete from postroom_outbox_queue; delete from postroom_outbox_parked").await;
    let (store, pool) = counted(&my);
    let mut before = rows_read(&pool).await;
    let mut note = async |what: &str| {
        let now = rows_read(&pool).await;
        assert!(now - before < 2_000, "{what} read {} rows", now - before);
        before = now;
    };
    assert!(store.topics(10).await.expect("topics").is_empty());
    note("topics").await;
    assert!(store.failing(10).await.expect("failing").is_empty());
    note("failing").await;
    assert!(store.blocked_keys(10).await.expect("blocked keys").is_empty());
    note("blocked keys").await;
    assert!(store.nodes().await.expect("nodes").is_empty());
    note("nodes").await;
    pool.close().await;
    my.finish().await;
}

/// A long key is passed over in one step, and counted up to a limit.
#[tokio::test(flavor = "multi_thread")]
async fn adm_1_blocked_keys_are_walked_from_key_to_key() {
    let my = My::on_database_time().await;
    let (store, pool) = counted(&my);
    let waits = "insert into postroom_outbox_ordered
            (slot, key_hash, seq, id, topic_hash, priority, locked_until)
        with recursive n (i) as (select 1 union all select i + 1 from n where i < 900)
        select a.i % 3, a.i % 3, 900 * a.i + b.i, left(unhex(sha2(900 * a.i + b.i, 256)), 16), 0, 0,
            9000000000000000
        from n as a cross join n as b where a.i < 60;
        insert into postroom_outbox_message
            (seq, id, occurred_at, created_at, priority, topic, payload)
        select seq, id, 1, 1, 0, 't', 'x' from postroom_outbox_ordered";
    run(&my.pool, waits).await;
    // The server goes from key to key if it knows that keys are long.
    run(&my.pool, "analyze table postroom_outbox_ordered").await;
    let before = rows_read(&pool).await;
    let found = store.blocked_keys(10).await.expect("blocked keys");
    let read = rows_read(&pool).await - before;
    assert_eq!(found.iter().map(|key| key.behind).collect::<Vec<_>>(), [1_000; 3]);
    assert!(read < 10_000, "read {read} rows of 53,100");
    pool.close().await;
    my.finish().await;
}
