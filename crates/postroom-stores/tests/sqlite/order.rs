//! Order on SQLite: what a claim reads, and what is left behind.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, Purge, Store};
use postroom_core::{Message, MessageBuilder, Outbox, OwnerToken, WorkQueue};
use postroom_stores::{SqliteStore, StoreConfig};

const LEASE: Duration = Duration::from_secs(30);

struct Env {
    store: Arc<SqliteStore>,
    outbox: Outbox<SqliteStore>,
    queue: WorkQueue,
    me: OwnerToken,
}

impl Env {
    async fn new(config: StoreConfig) -> Self {
        let store = Arc::new(SqliteStore::in_memory(config).await.expect("open"));
        store.migrate().await.expect("migrate");
        Self {
            outbox: Outbox::new(Arc::clone(&store)),
            queue: WorkQueue::new(Arc::clone(&store) as Arc<dyn Store>),
            store,
            me: OwnerToken::random(),
        }
    }

    async fn run(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(self.store.writer()).await.expect(sql);
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(self.store.writer()).await.expect(sql)
    }

    /// How a statement will be carried out, line by line.
    async fn plan(&self, statement: &str) -> Vec<String> {
        let explain = sqlx::AssertSqlSafe(format!("explain query plan {statement}"));
        let lines: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(explain).fetch_all(self.store.writer()).await.expect("explain");
        lines.into_iter().map(|(_, _, _, line)| line).collect()
    }
}

fn of(key: &str) -> MessageBuilder {
    Message::builder("order.placed").ordering_key(key)
}

/// A key that lies in the same slot as this one.
fn neighbour_of(key: &str) -> String {
    let slot = |key: &str| of(key).build().expect("legal").lane().expect("ordered").slot;
    let mut others = (0..).map(|n: u32| n.to_string());
    others.find(|other| slot(other) == slot(key)).expect("there are 256 slots")
}

/// Rows behind the only one of the queue, without going through the store: it is quicker.
const FILL: &str = "
with recursive n (i) as (select 1 union all select i + 1 from n where i < 50000)
insert into postroom_outbox_queue (seq, id, slot, key_hash, topic_hash, priority)
select 1000000 + i, randomblob(16), slot, key_hash, topic_hash, priority
from n cross join postroom_outbox_queue;
";

#[tokio::test]
async fn ord_3_what_waits_behind_a_blocked_key_is_never_read() {
    let env = Env::new(StoreConfig::default()).await;
    env.outbox.publish(of("blocked")).await.expect("publish");
    let first = env.queue.claim(env.me, LEASE, 1).await.expect("claim").items;
    let hour = Duration::from_hours(1);
    let waits = env.queue.abandon_for(env.me, &[first[0].lease], hour, "boom").await;
    assert_eq!(waits.expect("abandon").applied, 1);
    env.run("analyze").await;
    env.run(FILL).await;
    // Statistics: taken when there was one row, none, fresh.
    for statistics in ["select 1", "delete from sqlite_stat1; analyze sqlite_schema", "analyze"] {
        env.run(statistics).await;
        for (statement, searches) in STATEMENTS {
            let lines = env.plan(statement).await;
            let text = lines.join("\n");
            for search in *searches {
                assert!(text.contains(search), "{search} after {statistics:?}:\n{text}");
            }
            // Of tables and their aliases, only the recursion's own rows and a list may be scanned.
            for line in lines.iter().filter(|line| line.starts_with("SCAN")) {
                let fine = ["SCAN k", "SCAN CONSTANT ROW"].iter().any(|own| line.starts_with(own));
                assert!(fine, "{line} after {statistics:?}:\n{text}");
            }
        }
        let keys = env.plan(STATEMENTS[1].0).await.join("\n");
        assert!(!keys.contains("TEMP B-TREE"), "sorted after {statistics:?}:\n{keys}");
        let other = env.outbox.publish(of(&neighbour_of("blocked"))).await.expect("publish").id;
        let items = env.queue.claim(env.me, LEASE, 10).await.expect("claim").items;
        assert_eq!(items.iter().map(|item| item.message.id()).collect::<Vec<_>>(), [other]);
        assert_eq!(env.queue.ack(env.me, &[items[0].lease]).await.expect("ack").applied, 1);
    }
}

/// The statements of an ordered claim that read the queue, and the searches that each must be.
const STATEMENTS: &[(&str, &[&str])] = &[
    (
        include_str!("../../sql/sqlite/claim_work.sql"),
        &[
            "COVERING INDEX postroom_outbox_queue_slot (slot>?)",
            "postroom_outbox_parked_slot (wake_at<?)",
        ],
    ),
    (
        include_str!("../../sql/sqlite/claim_keys.sql"),
        &[
            "SEARCH n USING COVERING INDEX postroom_outbox_queue_slot (slot=? AND key_hash>?)",
            "SEARCH n USING COVERING INDEX postroom_outbox_queue_slot (slot=?)",
            "SEARCH q USING INDEX postroom_outbox_queue_slot (slot=? AND key_hash=? AND seq=?",
            "SEARCH r USING COVERING INDEX postroom_outbox_queue_slot (slot=? AND key_hash=?)",
            "SEARCH h USING INDEX postroom_outbox_queue_held (slot=? AND key_hash=?)",
            "SEARCH h USING COVERING INDEX postroom_outbox_halt_key (slot=? AND key_hash=?)",
        ],
    ),
    (
        include_str!("../../sql/sqlite/claim_run.sql"),
        &[
            "SEARCH r USING COVERING INDEX postroom_outbox_queue_slot (slot=? AND key_hash=?)",
            "SEARCH q USING INDEX postroom_outbox_queue_slot (slot=? AND key_hash=? AND seq<?)",
        ],
    ),
];

#[tokio::test]
async fn ord_2_halt_a_purged_message_stops_nothing() {
    let env = Env::new(StoreConfig { halt: true, ..StoreConfig::default() }).await;
    for _ in 0..2 {
        env.outbox.publish(of("a")).await.expect("publish");
    }
    let items = env.queue.claim(env.me, LEASE, 1).await.expect("claim").items;
    assert_eq!(env.queue.fail(env.me, &[items[0].lease], "never").await.expect("fail").applied, 1);
    assert!(env.queue.claim(env.me, LEASE, 10).await.expect("claim").items.is_empty());
    let all = Purge { dead: Some(Duration::ZERO), ..Purge::default() };
    assert_eq!(env.queue.purge(&all).await.expect("purge").messages, 1);
    assert_eq!(env.queue.claim(env.me, LEASE, 10).await.expect("claim").items.len(), 1);
    assert_eq!(env.count("select count(*) from postroom_outbox_halt").await, 0);
}

#[tokio::test]
async fn ord_1_owners_that_are_gone_leave_no_rows() {
    let env = Env::new(StoreConfig::default()).await;
    env.outbox.publish(of("a")).await.expect("publish");
    for _ in 0..20 {
        let brief = Duration::from_micros(1);
        let _ = env.queue.claim(OwnerToken::random(), brief, 1).await.expect("claim");
    }
    assert!(env.count("select count(*) from postroom_outbox_node").await <= 2);
}
