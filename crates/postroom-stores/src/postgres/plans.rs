//! Every statement fits the schema, and its plan reads what it needs and no more: with fresh, stale
//! and missing statistics, with custom and generic plans, and with plans older than the data.

mod tenants;

use postroom_core::store::{AdminStore, StoreTransaction as _};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{Executor, SqlStr};
use uuid::Uuid;

use super::PgStore;
use super::session::{EngineConn, Purpose};
use crate::StoreConfig;
use crate::names::Queue;

/// Statements with the arguments of a typical call.
const CALLS: [(&str, &str); 12] = [
    ("claim", "null, gen_random_uuid(), gen_random_uuid(), 30000000, 500, 1, 10, 7, '{}', '{}'"),
    ("claim_ready", "null, gen_random_uuid(), gen_random_uuid(), 30000000, 500, 7, '{}', '{}'"),
    (
        "settle",
        "null, gen_random_uuid(), '{1,2,3}', array_fill(gen_random_uuid(), '{3}'), '{1,2,3}', \
         '{0,0,9}', '{f,t,t}', '{null,2,null}', '{null,x,x}', true, false",
    ),
    ("settle_done", "null, gen_random_uuid(), '{1,2,3}', array_fill(gen_random_uuid(), '{3}')"),
    ("settle_gone", "null, gen_random_uuid(), '{1,2,3}', array_fill(gen_random_uuid(), '{3}')"),
    ("renew", "null, gen_random_uuid(), '{1,2,3}', array_fill(gen_random_uuid(), '{3}'), 30000000"),
    ("purge", "null, 1000000, null, 1000"),
    ("purge_keys", "null, 1000000, 1000"),
    ("get", "array[gen_random_uuid()], true"),
    ("replay", "null, '{1,2,3}', '{1,2,3}', '{1,2,3}', '{1,2,3}', '{1,2,3}'"),
    ("discard", "null, array_fill(gen_random_uuid(), '{3}')"),
    ("append_lookup", "array_fill(gen_random_uuid(), '{3}'), array_fill(''::bytea, '{3}')"),
];

/// 100,000 rows that wait, a million that are done, a thousand that can run.
const LOAD: &str = "
    insert into postroom.outbox_message (id, seq, occurred_at, created_at, priority, topic, payload)
    select gen_random_uuid(), number, now(), now(), 0, 't', 'x'
    from generate_series(1, 200000) as number;
    insert into postroom.outbox_settled (seq, settled_at, id, attempts, lost, state)
    select number, now(), gen_random_uuid(), 0, 0, 1
    from generate_series(1, 1000000) as number;
    insert into postroom.outbox_parked (seq, wake_at, id, topic_hash, attempts, lost, priority)
    select 1000000 + number, now() + interval '1 h', gen_random_uuid(), 0, 0, 0, number % 3 - 1
    from generate_series(1, 100000) as number;
    insert into postroom.outbox_queue (seq, id, topic_hash, attempts, lost, priority)
    select 2000000 + number, gen_random_uuid(), 0, 0, 0, 0
    from generate_series(1, 1000) as number";

/// The tables of a test alone: two that analyse each other's wait for each other.
const ANALYZE: &str = "
    analyze postroom.outbox_message, postroom.outbox_queue, postroom.outbox_parked,
        postroom.outbox_settled, postroom.outbox_attempt, postroom.outbox_key";

fn url() -> String {
    std::env::var("POSTROOM_TEST_PG_URL")
        .expect("POSTROOM_TEST_PG_URL must name a PostgreSQL database for tests")
}

async fn store(queue: Queue) -> PgStore {
    store_with(StoreConfig { queue, ..StoreConfig::default() }).await
}

async fn store_with(config: StoreConfig) -> PgStore {
    let schema = format!("test_{}", Uuid::new_v4().simple());
    let config = StoreConfig { schema, ..config };
    let store = PgStore::connect(&url(), config).await.expect("the test server answers");
    store.migrate().await.expect("migrates");
    // The statistics of these tests are made by the tests.
    for table in ["message", "queue_plain", "queue_ordered", "parked", "settled"] {
        let sql = format!("alter table postroom.outbox_{table} set (autovacuum_enabled = off)");
        run(&store, &sql).await;
    }
    store
}

fn render(store: &PgStore, sql: &str) -> SqlStr {
    store.names.render_qualified(sql)
}

/// Runs statements of a test in a session of the application.
async fn run(store: &PgStore, sql: &str) {
    let mut tx = store.sessions.begin().await.expect("begins");
    let run = tx.conn().execute(sqlx::raw_sql(render(store, sql)));
    run.await.expect("the statement of the test");
    tx.commit().await.expect("commits");
}

async fn finish(store: PgStore) {
    let sql = format!("drop schema \"{}\" cascade", store.names.schema());
    run(&store, &sql).await;
}

async fn prepare(store: &PgStore, conn: &mut PgConnection) {
    for (name, sql) in store.sql.all() {
        if CALLS.iter().any(|(called, _)| *called == name) {
            let sql = render(store, &format!("prepare plan_{name} as {}", sql.as_str()));
            conn.execute(sqlx::raw_sql(sql)).await.expect(name);
        }
    }
}

async fn explain(store: &PgStore, conn: &mut PgConnection, name: &str, arguments: &str) -> String {
    let sql = render(store, &format!("explain (costs off) execute plan_{name}({arguments})"));
    let rows = sqlx::raw_sql(sql).fetch_all(conn).await.expect(name);
    let lines: Vec<String> = rows.iter().map(|row| sqlx::Row::get(row, 0)).collect();
    lines.join("\n")
}

/// Checks the plans of all calls in a session.
async fn check(store: &PgStore, conn: &mut PgConnection, what: &str) {
    for mode in ["force_generic_plan", "force_custom_plan"] {
        let sql = render(store, &format!("set plan_cache_mode = {mode}"));
        conn.execute(sqlx::raw_sql(sql)).await.expect("a setting");
        for (name, arguments) in CALLS {
            let plan = explain(store, conn, name, arguments).await;
            let what = format!("{name}, {what}, {mode}:\n{plan}");
            assert!(!plan.contains("Seq Scan"), "reads a whole table: {what}");
            let lines: Vec<_> = plan.lines().collect();
            let unbound = lines
                .windows(2)
                .filter(|pair| pair[0].contains("Scan using") && !pair[1].contains("Index Cond"));
            assert_eq!(unbound.count(), unbound_scans(name), "reads a whole index: {what}");
            if name == "claim" {
                check_claim(&plan, &what);
            }
        }
    }
}

/// Scans that go by an index alone: the question whether there is any ordered row, in a claim, or
/// any bad attempt.
fn unbound_scans(name: &str) -> usize {
    usize::from(["claim", "claim_ready", "settle_gone"].contains(&name))
}

/// The bands of a claim stop at their limit, because their index already has their order.
fn check_claim(plan: &str, what: &str) {
    for (band, index) in [
        ("high_queue", "outbox_queue_plain_expr_seq_idx"),
        ("zero_queue", "outbox_queue_plain_pkey"),
        ("low_queue", "outbox_queue_plain_expr_seq_idx"),
        ("high_queue_suspect", "outbox_queue_plain_expr_seq_idx"),
        ("zero_queue_suspect", "outbox_queue_plain_pkey"),
        ("low_queue_suspect", "outbox_queue_plain_expr_seq_idx"),
        ("zero_parked", "outbox_parked_wake_at_seq_idx"),
        ("zero_parked_suspect", "outbox_parked_wake_at_seq_idx"),
    ] {
        let start = plan.find(&format!("CTE {band}\n")).expect("the band is in the plan");
        let section = plan[start + 4..].split("\n  CTE ").next().unwrap_or_default();
        assert!(section.contains(&format!("Index Scan using {index}")), "{band} of {what}");
        assert!(!section.contains("Sort"), "{band} of {what}");
    }
    for band in ["high_parked", "low_parked"] {
        let start = plan.find(&format!("CTE {band}\n")).expect("the band is in the plan");
        let section = plan[start + 4..].split("\n  CTE ").next().unwrap_or_default();
        assert!(section.contains("Index Cond: (wake_at <="), "{band} of {what}");
    }
    assert!(plan.contains("Index Scan using outbox_message_pkey"), "{what}");
}

async fn engine(store: &PgStore) -> EngineConn {
    store.sessions.engine(Purpose::Other, "test").await.expect("a session")
}

#[tokio::test]
async fn every_statement_fits_the_schema() {
    for queue in Queue::ALL {
        let store = store(queue).await;
        let mut engine = engine(&store).await;
        for (name, sql) in store.sql.all() {
            engine.conn().prepare(sql).await.expect(name);
        }
        finish(store).await;
    }
}

#[tokio::test]
async fn wq_11_plans_without_and_with_fresh_statistics() {
    let store = store(Queue::Outbox).await;
    // A plan that was made when there was nothing, in a session that lives on.
    let mut old = engine(&store).await;
    prepare(&store, old.conn()).await;
    check(&store, old.conn(), "empty").await;
    run(&store, LOAD).await;
    check(&store, old.conn(), "plans older than the data").await;

    let mut new = engine(&store).await;
    prepare(&store, new.conn()).await;
    check(&store, new.conn(), "never analysed").await;
    run(&store, ANALYZE).await;
    check(&store, new.conn(), "analysed").await;
    finish(store).await;
}

#[tokio::test]
async fn wq_11_plans_with_statistics_of_empty_tables() {
    let store = store(Queue::Outbox).await;
    run(&store, ANALYZE).await;
    run(&store, LOAD).await;
    let mut engine = engine(&store).await;
    prepare(&store, engine.conn()).await;
    check(&store, engine.conn(), "analysed when empty").await;
    finish(store).await;
}

/// What people look at: with the arguments of a call, and by which indexes settled rows are found.
const LOOKS: [(&str, &str, &[&str]); 3] = [
    ("topics", "10", &["outbox_settled_id_idx", "outbox_settled_settled_at_seq_idx"]),
    ("failing", "10", &["outbox_settled_settled_at_seq_idx"]),
    ("blocked_keys", "null, 10, 10000, 1000", &["outbox_settled_pkey"]),
];

#[tokio::test]
async fn adm_1_what_people_look_at_reads_live_rows_and_dead_letters() {
    let store = store(Queue::Outbox).await;
    let mut engine = engine(&store).await;
    for (name, sql) in store.sql.all() {
        if LOOKS.iter().any(|(look, ..)| *look == name) {
            let sql = render(&store, &format!("prepare plan_{name} as {}", sql.as_str()));
            engine.conn().execute(sqlx::raw_sql(sql)).await.expect(name);
        }
    }
    for when in ["empty", "loaded", "analysed"] {
        match when {
            "loaded" => run(&store, LOAD).await,
            "analysed" => run(&store, ANALYZE).await,
            _ => {}
        }
        for (name, arguments, indexes) in LOOKS {
            let plan = explain(&store, engine.conn(), name, arguments).await;
            let mut whole = plan.lines().filter(|line| line.contains("Seq Scan on outbox_"));
            // Live rows are few, but from key to key only some of them are read.
            let is_live = |line: &str| {
                let ordered = line.contains("queue_ordered") && name == "blocked_keys";
                (line.contains("_queue_") || line.contains("_parked")) && !ordered
            };
            assert!(whole.all(is_live), "{name}, {when}:\n{plan}");
            let lines: Vec<_> = plan.lines().map(str::trim_start).collect();
            for pair in lines.windows(2) {
                let one_by_one = pair[1].starts_with("Index Cond: (id = ");
                let of = |table: &str| pair[0].contains(&format!(" on outbox_{table}"));
                let messages = (of("message") || of("attempt")) && !one_by_one;
                assert!(!messages, "{name}, {when}:\n{plan}");
                let dead = indexes.iter().any(|index| pair[0].contains(&format!("using {index} ")));
                assert!(!of("settled") || dead, "{name}, {when}:\n{plan}");
            }
        }
    }
    finish(store).await;
}

/// What lists walk, and from where. None of it is sorted: a page ends with its last message.
const WALKS: [(&str, &str, &str); 12] = [
    ("list", "outbox_message_pkey", "((id >= $13)"),
    ("list", "outbox_settled_id_idx", "((id >= $13)"),
    ("list", "outbox_message_pkey", "(id = "),
    (
        "list",
        "outbox_message_aggregate_type_aggregate_id_id_idx",
        "((aggregate_type = $5) AND (aggregate_id = $6) AND (id >= $13)",
    ),
    ("list", "outbox_message_ordering_key_id_idx", "((ordering_key = $7) AND (id >= $13)"),
    ("list_live", "outbox_queue_plain_pkey", "((seq >= $13)"),
    ("list_live", "outbox_queue_ordered_pkey", "((seq >= $13)"),
    ("list_live", "outbox_parked_pkey", "((seq >= $13)"),
    ("list_live", "outbox_parked_seq_idx", "((seq >= $13)"),
    ("list_live", "outbox_message_pkey", "(id = "),
    ("list_live_end", "outbox_queue_plain_pkey", "(seq <= $2)"),
    ("list_live_end", "outbox_parked_seq_idx", "(seq <= $2)"),
];

/// A list begins with what it looks at, and reads messages one by one: by their ids, by the ids of
/// dead letters, or by the places of live rows.
#[tokio::test]
async fn adm_1_lists_walk_an_index() {
    let store = store(Queue::Outbox).await;
    let mut engine = engine(&store).await;
    let nothing = "null, ".repeat(11);
    let ids = "'00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let calls = [
        ("list", &store.sql.list, format!("5, {nothing} {ids}, 500, 500, 2")),
        ("list_live", &store.sql.list_live, format!("1, {nothing} 0, 9000000, 500, 500")),
        ("list_live_end", &store.sql.list_live_end, "1, 9000000, 499".to_owned()),
    ];
    for (name, sql, _) in &calls {
        let sql = render(&store, &format!("prepare plan_{name} as {}", sql.as_str()));
        engine.conn().execute(sqlx::raw_sql(sql)).await.expect("prepares");
    }
    for when in ["empty", "loaded", "analysed"] {
        match when {
            "loaded" => run(&store, LOAD).await,
            "analysed" => run(&store, ANALYZE).await,
            _ => {}
        }
        for (name, _, arguments) in &calls {
            let plan = explain(&store, engine.conn(), name, arguments).await;
            let lines: Vec<_> = plan.lines().map(str::trim_start).collect();
            for (_, index, condition) in WALKS.iter().filter(|(list, ..)| list == name) {
                let walks = |pair: &[&str]| {
                    pair[0].contains(&format!("using {index} on "))
                        && pair[1].starts_with(&format!("Index Cond: {condition}"))
                };
                let found = lines.windows(2).any(walks);
                assert!(found, "no {index} with {condition}, {when}:\n{plan}");
            }
            let reads_all = |line: &&str| line.contains("Seq Scan") || line.starts_with("->  Sort");
            assert_eq!(lines.iter().filter(|line| reads_all(line)).count(), 0, "{when}:\n{plan}");
        }
    }
    finish(store).await;
}

#[tokio::test]
async fn claims_of_a_foreign_pool_are_planned_alike() {
    let own = store(Queue::Outbox).await;
    run(&own, LOAD).await;
    let pool = PgPool::connect(&url()).await.expect("connects");
    let config = StoreConfig { schema: own.names.schema().to_owned(), ..StoreConfig::default() };
    let foreign = PgStore::new(pool, config).expect("legal names");
    let mut session = engine(&foreign).await;
    prepare(&foreign, session.conn()).await;
    check(&foreign, session.conn(), "foreign pool").await;
    session.finish("test").await.expect("commits");
    finish(own).await;
}
