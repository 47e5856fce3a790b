//! The plan of a claim in which tenants take turns.

use super::*;

const CALL: &str =
    "null, gen_random_uuid(), gen_random_uuid(), 30000000, 200, 1, 10, 0, '{}', '{}', 64, 256";

/// A backlog of one tenant, and one row of another one; as many wait for a time to come.
const BACKLOG: &str = "
    insert into postroom.outbox_queue (seq, id, topic_hash, tenant_hash, attempts, lost, priority)
    select 5000000 + number, gen_random_uuid(), 0, case when number = 77 then 2 else 1 end, 0, 0, 0
    from generate_series(1, 100000) as number;
    insert into postroom.outbox_parked
        (seq, wake_at, id, topic_hash, tenant_hash, attempts, lost, priority)
    select
        6000000 + number, now() + (number - 50000) * interval '1 s', gen_random_uuid(), 0, 3, 0, 0,
        0
    from generate_series(1, 100000) as number";

async fn fair_store() -> PgStore {
    let store = store_with(StoreConfig { fair_tenants: true, ..StoreConfig::default() }).await;
    store.check_schema().await.expect("a migration makes the indexes");
    store
}

/// Which index each scan goes by. None is read from end to end, and none is sorted but what came
/// due with a priority.
fn check_fair(plan: &str, what: &str) {
    assert!(!plan.contains("Seq Scan"), "reads a whole table: {what}");
    for (band, index) in [
        ("queue_walk", "outbox_queue_tenants"),
        ("parked_walk", "outbox_parked_tenants"),
        ("queue_fresh", "outbox_queue_tenants"),
        ("band_suspect", "outbox_queue_tenants"),
        ("edge_suspect", "outbox_queue_tenants"),
        ("found", "outbox_parked_tenants"),
        ("zero_parked", "outbox_parked_tenants"),
        ("zero_parked_suspect", "outbox_parked_tenants"),
        ("high_parked", "outbox_parked_tenants"),
        ("low_parked", "outbox_parked_tenants"),
    ] {
        let start = plan.find(&format!("CTE {band}\n")).expect("the band is in the plan");
        let section = plan[start + 4..].split("\n  CTE ").next().unwrap_or_default();
        let lines: Vec<_> = section.lines().map(str::trim_start).collect();
        let scans = lines.windows(2).filter(|pair| pair[0].contains(" Scan "));
        let scans = scans.filter(|pair| pair[0].contains(" on outbox_"));
        let mut count = 0;
        for pair in scans {
            count += 1;
            assert!(pair[0].contains(&format!(" using {index} ")), "{band} of {what}");
            assert!(pair[1].starts_with("Index Cond: "), "{band} of {what}");
        }
        assert!(count > 0, "{band} of {what}");
        let bounded = ["queue_walk", "parked_walk", "queue_fresh", "zero_parked"];
        assert!(!bounded.contains(&band) || !section.contains("Sort"), "{band} of {what}");
    }
}

#[tokio::test]
async fn fleet_6_a_fair_claim_goes_by_its_indexes_with_any_statistics() {
    let store = fair_store().await;
    let mut engine = engine(&store).await;
    let sql = render(&store, &format!("prepare plan_fair as {}", store.sql.claim_fair.as_str()));
    engine.conn().execute(sqlx::raw_sql(sql)).await.expect("prepares");
    for when in ["empty", "loaded", "analysed"] {
        match when {
            "loaded" => run(&store, BACKLOG).await,
            "analysed" => run(&store, ANALYZE).await,
            _ => {}
        }
        for mode in ["force_generic_plan", "force_custom_plan"] {
            let sql = render(&store, &format!("set plan_cache_mode = {mode}"));
            engine.conn().execute(sqlx::raw_sql(sql)).await.expect("a setting");
            let plan = explain(&store, engine.conn(), "fair", CALL).await;
            check_fair(&plan, &format!("{when}, {mode}:\n{plan}"));
        }
    }
    finish(store).await;
}

/// How many pages a fair claim touches. It is undone.
async fn pages(store: &PgStore) -> usize {
    let mut engine = engine(store).await;
    let sql = format!("explain (analyze, buffers) {}", store.sql.claim_fair.as_str());
    let text =
        ["null::timestamptz", "gen_random_uuid()", "gen_random_uuid()", "30000000", "200", "1"];
    let rest = ["10", "0::bigint", "'{}'", "'{}'", "64", "256"];
    let arguments: Vec<_> = text.into_iter().chain(rest).collect();
    let sql = (1..=arguments.len())
        .rev()
        .fold(sql, |sql, n| sql.replace(&format!("${n}"), &format!("({})", arguments[n - 1])));
    let conn = engine.conn();
    conn.execute("begin").await.expect("begins");
    let rows = sqlx::raw_sql(render(store, &sql)).fetch_all(&mut *conn).await.expect("explains");
    conn.execute("rollback").await.expect("rolls back");
    let lines: Vec<String> = rows.iter().map(|row| sqlx::Row::get(row, 0)).collect();
    let buffers = lines.iter().find(|line| line.trim_start().starts_with("Buffers: "));
    let buffers = buffers.expect("it says so");
    let numbers = buffers.split(['=', ' ']).filter_map(|word| word.parse::<usize>().ok());
    numbers.sum()
}

#[tokio::test]
async fn wq_11_a_fair_claim_does_not_read_the_backlog_of_a_large_tenant() {
    let store = fair_store().await;
    let small = BACKLOG.replace("100000", "1000").replace("50000", "500");
    run(&store, &small).await;
    let before = pages(&store).await;
    run(&store, "truncate postroom.outbox_queue_plain, postroom.outbox_parked").await;
    run(&store, BACKLOG).await;
    let after = pages(&store).await;
    assert!(
        after < 2 * before,
        "{before} pages with a thousand rows, {after} with a hundred times that"
    );
    finish(store).await;
}

/// What a claim does with the rows that it chose is the same, however it chose them.
#[test]
fn fleet_6_both_claims_write_alike() {
    let [plain, fair] = [
        include_str!("../../../sql/postgres/claim.sql"),
        include_str!("../../../sql/postgres/claim_fair.sql"),
    ];
    let writes = |text: &'static str| {
        let (_, text) = text.split_once("-- By primary key and array").expect("leases");
        let (text, _) = text.split_once("-- One row at least").expect("answers");
        text
    };
    assert_eq!(writes(plain), writes(fair));
}
