//! What a claim takes, what it locks and reads, and what it leaves to others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{Settlement, State};
use postroom_core::store::{AdminStore, Claim, Store, WorkItem};
use postroom_core::{ErrorKind, Message, MessageBuilder, Outbox, OwnerToken, WorkQueue};
use postroom_testkit::Harness;
use sqlx::mysql::MySqlConnection;
use sqlx::{Executor, Row};
use uuid::Uuid;

use crate::mysql_support::{My, run};
use crate::own::rivals::{
    READ_COMMITTED, count, heavy, impatient_pool, kill, on_pool, open_transactions, plain_pool,
    session_of, until_idle, until_waiting,
};

const LEASE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(3_600);

fn plain() -> MessageBuilder {
    Message::builder("t").payload("x")
}

async fn claim(my: &My, batch: u32, suspects: u32) -> Vec<WorkItem> {
    let claim = Claim::new(OwnerToken::random(), LEASE, batch);
    let claim = claim.expect("legal").suspects(suspects);
    my.store.claim(&claim).await.expect("claims").items
}

/// A claim that stays open, by the procedures that the engine's claims call.
async fn claim_in(conn: &mut MySqlConnection, batch: i32) -> BTreeSet<i64> {
    let sql = "call postroom_outbox_take(null, ?, ?, 30000000, ?, 5, 10, 0, null)";
    let take = sqlx::query(sql).bind(Uuid::new_v4()).bind(Uuid::new_v4()).bind(batch);
    take.execute(&mut *conn).await.expect("claims");
    let seqs = sqlx::query_scalar("select seq from postroom_outbox_taken").fetch_all(conn).await;
    seqs.expect("what was taken").into_iter().collect()
}

async fn claim_ordered_in(conn: &mut MySqlConnection, batch: i32) -> usize {
    let sql = "call postroom_outbox_take_ordered(
        null, ?, ?, 30000000, ?, 1, 10, null, null, null, null, false
    )";
    let take = sqlx::query(sql).bind(Uuid::new_v4()).bind(Uuid::new_v4()).bind(batch);
    take.execute(&mut *conn).await.expect("claims");
    let seqs = sqlx::query_scalar::<_, i64>("select seq from postroom_outbox_taken");
    seqs.fetch_all(conn).await.expect("what was taken").len()
}

async fn publish_every_kind(my: &My) {
    let outbox = Outbox::new(my.store());
    let messages = (0..20).map(|n| match n % 4 {
        0 => plain(),
        1 => plain().ordering_key(format!("key {n}")),
        2 => plain().due_after(SOON),
        _ => plain().priority(7).idempotency_key(Uuid::new_v4()),
    });
    outbox.publish_all(messages).await.expect("publishes");
    run(&my.pool, "update postroom_outbox_parked set wake_at = 1").await;
}

/// B19: producers go on, whatever a claim has locked. At REPEATABLE READ they would not.
#[tokio::test(flavor = "multi_thread")]
async fn wq_9_a_claim_that_is_open_blocks_no_producer() {
    let my = My::on_database_time().await;
    publish_every_kind(&my).await;
    let outbox = Outbox::new(on_pool(impatient_pool(&my)));
    let mut conn = my.connection().await;
    conn.execute(sqlx::raw_sql(READ_COMMITTED)).await.expect("begins");
    assert_eq!(claim_in(&mut conn, 100).await.len(), 15);
    assert_eq!(claim_ordered_in(&mut conn, 100).await, 5);
    for message in [
        plain(),
        plain().priority(7),
        plain().priority(-7),
        plain().idempotency_key(Uuid::new_v4()),
        plain().ordering_key("key 1"),
        plain().ordering_key("another key"),
        plain().due_after(SOON),
        plain().ordering_key("key 1").due_after(SOON),
    ] {
        outbox.publish(message).await.expect("waits for nobody");
    }
    conn.execute("rollback").await.expect("ends");

    conn.execute("start transaction").await.expect("begins at the server's level");
    assert_eq!(claim_in(&mut conn, 100).await.len(), 19);
    let error = outbox.publish(plain()).await.expect_err("here it would wait");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, true), "{error}");
    conn.execute("rollback").await.expect("ends");
    drop(conn);
    my.finish().await;
}

/// One of the claims to come meets a lease that ran out; the note that it writes of that waits for
/// a rival, when it has locked all its rows.
async fn make_claims_wait(my: &My) -> sqlx::Transaction<'static, sqlx::MySql> {
    Outbox::new(my.store()).publish_all((0..5).map(|_| plain())).await.expect("publishes");
    assert_eq!(claim(my, 1, 1).await.len(), 1);
    run(&my.pool, "update postroom_outbox_queue set locked_until = 1 where leased = 1").await;
    let id = "select id from postroom_outbox_queue where leased = 1";
    let id = sqlx::query_scalar::<_, Uuid>(id).fetch_one(&my.pool).await.expect("one");
    let mut rival = my.pool.begin().await.expect("begins");
    let sql = "insert into postroom_outbox_attempt (id, n, at, kind) values (?, 1, 0, 2)";
    sqlx::query(sql).bind(id).execute(&mut *rival).await.expect("writes");
    rival
}

#[tokio::test(flavor = "multi_thread")]
async fn wq_9_a_claim_reads_committed_on_a_pool_that_does_not() {
    let my = My::on_database_time().await;
    let pool = plain_pool(&my);
    let level = "select cast(@@session.transaction_isolation as char)";
    let level = sqlx::query_scalar::<_, String>(level).fetch_one(&pool).await;
    let level = level.or(sqlx::query_scalar("select cast(@@session.tx_isolation as char)")
        .fetch_one(&pool)
        .await);
    assert_eq!(level.expect("a level"), "REPEATABLE-READ");
    let rival = make_claims_wait(&my).await;
    let store = on_pool(pool);
    let claiming = tokio::spawn(async move {
        let claim = Claim::new(OwnerToken::random(), LEASE, 10).expect("legal");
        store.claim(&claim).await
    });
    until_waiting(&my, 1).await;
    let producer = Outbox::new(on_pool(impatient_pool(&my)));
    producer.publish(plain()).await.expect("waits for nobody");
    rival.rollback().await.expect("rolls back");
    let claimed = claiming.await.expect("no panic").expect("claims");
    assert_eq!(claimed.items.len(), 5);
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f03_a_claim_whose_connection_is_killed_leases_nothing() {
    let my = My::on_database_time().await;
    let rival = make_claims_wait(&my).await;
    let queue = WorkQueue::new(my.store());
    let claiming = tokio::spawn(async move { queue.claim(OwnerToken::random(), LEASE, 10).await });
    kill(&my, until_waiting(&my, 1).await[0]).await;
    let error = claiming.await.expect("no panic").expect_err("no answer");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unavailable, true), "{error}");
    rival.rollback().await.expect("rolls back");
    until_idle(&my).await;
    let claimed = claim(&my, 10, 1).await;
    assert_eq!(claimed.len(), 5, "it was rolled back and locks nothing");
    assert_eq!(claimed.iter().map(|item| item.lost).sum::<u32>(), 1);
    my.finish().await;
}

/// Items that somebody holds, in the order of the queue.
async fn hold(my: &My, items: usize) -> (OwnerToken, Vec<WorkItem>) {
    let messages = (0..items).map(|_| plain());
    Outbox::new(my.store()).publish_all(messages).await.expect("publishes");
    let me = OwnerToken::random();
    let claimed = WorkQueue::new(my.store()).claim(me, LEASE, 100).await.expect("claims").items;
    assert_eq!(claimed.len(), items);
    (me, claimed)
}

async fn lock_place(conn: &mut MySqlConnection, item: &WorkItem) -> sqlx::Result<()> {
    let sql = "select seq from postroom_outbox_queue where seq = ? for update";
    sqlx::query(sql).bind(item.lease.work.seq()).execute(conn).await.map(drop)
}

async fn state(my: &My, item: &WorkItem) -> State {
    my.store.get(item.message.id()).await.expect("get").expect("is there").record.state
}

#[tokio::test(flavor = "multi_thread")]
async fn f03_a_settle_whose_connection_is_killed_settles_nothing() {
    let my = My::on_database_time().await;
    let (me, items) = hold(&my, 2).await;
    let leases: Vec<_> = items.iter().map(|item| item.lease).collect();
    let mut rival = my.pool.begin().await.expect("begins");
    lock_place(&mut rival, &items[1]).await.expect("nobody has it");
    let done: Vec<_> = leases.iter().map(|lease| (*lease, Settlement::Done)).collect();
    let store = my.store();
    let settling = tokio::spawn(async move { store.settle(me, &done).await });
    kill(&my, until_waiting(&my, 1).await[0]).await;
    let error = settling.await.expect("no panic").expect_err("no answer");
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unavailable, true), "{error}");
    rival.rollback().await.expect("rolls back");
    assert_eq!(state(&my, &items[0]).await, State::Leased);
    let settled = WorkQueue::new(my.store()).ack(me, &leases).await.expect("acks");
    assert_eq!(settled.applied, 2);
    my.finish().await;
}

/// Whether this is the error of somebody whom a deadlock chose.
fn is_victim(error: &postroom_core::Error) -> bool {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    error.kind() == ErrorKind::Contention && source.contains("Deadlock")
}

/// The rival has the second row and then wants the first, which the settle has. The store says so,
/// and the work queue runs it again.
#[tokio::test(flavor = "multi_thread")]
async fn wq_9_an_ack_that_a_deadlock_chose_is_run_again() {
    let my = My::on_database_time().await;
    let (me, items) = hold(&my, 2).await;
    let leases: Vec<_> = items.iter().map(|item| item.lease).collect();
    for again in [false, true] {
        let mut rival = heavy(&my).await;
        lock_place(&mut rival, &items[1]).await.expect("nobody has it");
        let (store, leases) = (my.store(), leases.clone());
        let acked = tokio::spawn(async move {
            let done: Vec<_> = leases.iter().map(|lease| (*lease, Settlement::Done)).collect();
            match again {
                true => WorkQueue::new(store).ack(me, &leases).await,
                false => store.settle(me, &done).await,
            }
        });
        until_waiting(&my, 1).await;
        lock_place(&mut rival, &items[0]).await.expect("the heavier one goes on");
        rival.rollback().await.expect("rolls back");
        match acked.await.expect("no panic") {
            Ok(settled) => assert_eq!((settled.applied, again), (2, true)),
            Err(error) => assert!(!again && is_victim(&error), "{error:?}"),
        }
    }
    assert_eq!(count(&my, "select count(*) from postroom_outbox_settled").await, 2);
    assert_eq!(count(&my, "select count(*) from postroom_outbox_queue").await, 0);
    my.finish().await;
}

/// A claim wants to write down a death, while it holds the row; the rival has written that and
/// wants the row.
#[tokio::test(flavor = "multi_thread")]
async fn wq_9_a_claim_that_a_deadlock_chose_is_run_again() {
    let my = My::on_database_time().await;
    let (_, items) = hold(&my, 1).await;
    run(&my.pool, "update postroom_outbox_queue set locked_until = 1").await;
    for again in [false, true] {
        let mut rival = heavy(&my).await;
        let sql = "insert into postroom_outbox_attempt (id, n, at, kind) values (?, 1, 0, 2)";
        let insert = sqlx::query(sql).bind(items[0].message.id().as_uuid());
        insert.execute(&mut *rival).await.expect("writes");
        let store = my.store();
        let claiming = tokio::spawn(async move {
            let claim = Claim::new(OwnerToken::random(), LEASE, 10).expect("legal");
            match again {
                true => WorkQueue::new(store).claim_with(&claim).await,
                false => store.claim(&claim).await,
            }
        });
        until_waiting(&my, 1).await;
        lock_place(&mut rival, &items[0]).await.expect("the heavier one goes on");
        rival.rollback().await.expect("rolls back");
        match claiming.await.expect("no panic") {
            // When it ran again the rival may still have had the row.
            Ok(claimed) => assert!(again && claimed.items.len() <= 1),
            Err(error) => assert!(!again && is_victim(&error), "{error:?}"),
        }
    }
    let left = claim(&my, 10, 1).await.len() as i64;
    let held = "select count(*) from postroom_outbox_queue where locked_until > 1 and lost = 1";
    assert_eq!(count(&my, held).await, 1, "{left} were left");
    assert_eq!(count(&my, "select count(*) from postroom_outbox_attempt").await, 1);
    my.finish().await;
}

async fn empty(my: &My) {
    let sql = "delete from postroom_outbox_message; delete from postroom_outbox_queue;
        delete from postroom_outbox_parked; delete from postroom_outbox_attempt;
        delete from postroom_outbox_settled; delete from postroom_outbox_key;
        delete from postroom_outbox_ordered";
    run(&my.pool, sql).await;
}

/// How many rows the open transaction of this session has locked.
async fn rows_locked(my: &My, conn: &mut MySqlConnection) -> u64 {
    let session = session_of(conn).await;
    let open = open_transactions(my).await;
    open.iter().find(|open| open.session == session).expect("it is open").row_locks
}

#[tokio::test(flavor = "multi_thread")]
async fn b19_open_claims_have_disjoint_batches_and_lock_little_else() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    for (what, change) in [
        ("plain", "do 0"),
        ("priorities", "update postroom_outbox_queue set band = seq % 7 - 3"),
        ("suspects", "update postroom_outbox_queue set lost = 1 where seq % 100 = 0"),
        (
            "leases that ran out",
            "update postroom_outbox_queue set leased = 1, locked_until = 1 where seq % 100 = 0",
        ),
        (
            "waited",
            "insert into postroom_outbox_parked
                (seq, band, wake_at, id, topic_hash, priority, lost)
            select seq, seq % 3 - 1, seq, id, topic_hash, 1 - seq % 3, seq % 50 = 0
            from postroom_outbox_queue where seq % 2 = 0;
            delete from postroom_outbox_queue where seq % 2 = 0",
        ),
    ] {
        empty(&my).await;
        outbox.publish_all((0..1_000).map(|_| plain())).await.expect("publishes");
        run(&my.pool, change).await;
        let mut seen = BTreeSet::new();
        let mut open = Vec::new();
        for _ in 0..3 {
            let mut conn = my.connection().await;
            conn.execute(sqlx::raw_sql(READ_COMMITTED)).await.expect("begins");
            let taken = claim_in(&mut conn, 10).await;
            assert_eq!(taken.len(), 10, "{what}");
            assert!(seen.is_disjoint(&taken), "{what}");
            seen.extend(taken);
            // Of the first one: what others have locked counts too, while it is passed over. A
            // surplus of each kind above priority 0, and more than one index per row.
            let locked = rows_locked(&my, &mut conn).await;
            // The search for suspects keeps the entries of the index that it read.
            let most = if what == "waited" { 400 } else { 80 };
            assert!(!open.is_empty() || locked <= most, "{what}: {locked} rows locked for 10");
            open.push(conn);
        }
        // Nearly everything else is free.
        let mut conn = my.connection().await;
        conn.execute(sqlx::raw_sql(READ_COMMITTED)).await.expect("begins");
        let rest = claim_in(&mut conn, 1_000).await;
        assert!(rest.is_disjoint(&seen), "{what}");
        assert!(rest.len() >= 750, "{what}: only {} are free", rest.len());
        open.push(conn);
        for mut conn in open {
            conn.execute("rollback").await.expect("rolls back");
        }
    }
    my.finish().await;
}

/// Rows that sessions read, one by one.
pub(crate) async fn rows_read(pool: &sqlx::MySqlPool) -> u64 {
    let rows = sqlx::raw_sql("show session status like 'Handler_read%'").fetch_all(pool).await;
    rows.expect("figures")
        .iter()
        .map(|row| row.get::<String, _>(1).parse::<u64>().expect("n"))
        .sum()
}

const NUMBERS: &str =
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 150)
    select 1000 + 150 * a.i + b.i as seq from n as a cross join n as b";

/// A queue, a waiting room and a past of 22,500 rows each, of one band.
pub(crate) async fn fill(my: &My, band: i16) {
    empty(my).await;
    let rows = format!(
        "insert into postroom_outbox_message
            (seq, id, occurred_at, created_at, priority, topic, payload)
        select seq, unhex(sha2(seq, 224)), 1, 1, {minus}, 't', 'x' from ({NUMBERS}) as numbers;
        insert into postroom_outbox_queue (band, seq, id, topic_hash)
        select {band}, seq, id, 0 from postroom_outbox_message;
        insert into postroom_outbox_parked (seq, band, wake_at, id, topic_hash, priority)
        select 100000 + seq, {band}, 4000000000000000 + seq, id, 0, {minus}
        from postroom_outbox_message;
        insert into postroom_outbox_settled (seq, settled_at, id, attempts, lost, state)
        select 200000 + seq, 4000000000000000, id, 0, 0, 1 from postroom_outbox_message;
        insert into postroom_outbox_key (hash, written_by, created_at, message_id, content_hash)
        select sha2(seq, 256), 1, 4000000000000000, id, '' from postroom_outbox_message",
        minus = -band,
    )
    .replace("unhex(sha2(seq, 224))", "left(unhex(sha2(seq, 256)), 16)")
    .replace("select sha2(seq, 256), 1", "select unhex(sha2(seq, 256)), 1");
    my.pool.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(rows))).await.expect("fills");
}

/// How many rows each kind of call has read.
fn assert_few(band: i16, figures: &[(&str, u64)]) {
    for (what, read) in figures {
        // A reap looks for what ran out among all that are live, thrice; the next due time of
        // messages with a priority is looked for among all of those that wait.
        let most = match *what {
            "reap" => 70_000,
            "next due" if band != 0 => 25_000,
            _ => 5_000,
        };
        assert!(*read < most, "{what} of band {band} read {read} rows of 22,500");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wq_11_no_statement_of_the_engine_reads_a_whole_table() {
    let my = My::on_database_time().await;
    for band in [0, -5, 5] {
        fill(&my, band).await;
        let pool = sqlx::mysql::MySqlPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with((*my.pool.connect_options()).clone());
        let store = on_pool(pool.clone());
        let queue = WorkQueue::new(Arc::clone(&store) as _);
        let me = OwnerToken::random();
        let mut figures = Vec::new();
        let mut before = rows_read(&pool).await;
        let mut note = async |what: &'static str| {
            let now = rows_read(&pool).await;
            figures.push((what, now - before));
            before = now;
        };
        let items = queue.claim(me, LEASE, 10).await.expect("claims").items;
        assert_eq!(items.len(), 10);
        note("claim").await;
        let leases: Vec<_> = items.iter().map(|item| item.lease).collect();
        assert_eq!(queue.renew(me, &leases, LEASE).await.expect("renews").applied, 10);
        note("renew").await;
        assert_eq!(queue.ack(me, &leases[..4]).await.expect("acks").applied, 4);
        note("ack").await;
        assert_eq!(queue.fail(me, &leases[4..6], "no").await.expect("fails").applied, 2);
        note("fail").await;
        assert_eq!(queue.abandon(me, &items[6..8], "no").await.expect("abandons").applied, 2);
        note("abandon").await;
        assert_eq!(queue.release(me, &leases[8..]).await.expect("releases").applied, 2);
        note("release").await;
        let dead = [items[4].message.id(), items[5].message.id()];
        assert_eq!(store.replay(&dead).await.expect("replays").applied.len(), 2);
        note("replay").await;
        assert_eq!(store.discard(&dead).await.expect("discards").applied.len(), 2);
        note("discard").await;
        store.get(dead[0]).await.expect("get").expect("is there");
        note("get").await;
        store.list(&Default::default()).await.expect("lists");
        note("list").await;
        assert!(store.next_due().await.expect("due").is_some());
        note("next due").await;
        let purge = postroom_core::store::Purge {
            done: Some(LEASE),
            dead: Some(LEASE),
            keys: Some(LEASE),
            limit: 100,
        };
        _ = store.purge(&purge).await.expect("purges");
        note("purge").await;
        let outbox = Outbox::new(Arc::clone(&store));
        for key in [1, 1] {
            let message = plain().idempotency_key(Uuid::from_u128(key));
            outbox.publish(message).await.expect("publishes");
        }
        outbox.publish(plain().ordering_key("a")).await.expect("publishes");
        note("publish").await;
        let claimed = queue.claim(me, LEASE, 10).await.expect("claims");
        assert_eq!(claimed.items.len(), 10, "band {band}: {claimed:?}");
        note("claim of both kinds").await;
        _ = queue.reap(100).await.expect("reaps");
        note("reap").await;
        assert_few(band, &figures);
        pool.close().await;
    }
    my.finish().await;
}

/// A row of the queue or of the waiting, as the reference sees it: in the order of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    band: i16,
    queued: bool,
    waited: i64,
    seq: i64,
    suspect: bool,
}

/// Messages of all kinds: ready, held, lost, waiting, due.
async fn scatter(my: &My, rows: usize) {
    let messages = (0..rows).map(|_| plain());
    Outbox::new(my.store()).publish_all(messages).await.expect("publishes");
    let sql = "update postroom_outbox_queue
        set band = case when rand() < 0.6 then 0 else floor(rand() * 5) - 2 end,
            lost = rand() < 0.1;
        update postroom_outbox_queue set leased = 1, locked_until = 1 where rand() < 0.1;
        update postroom_outbox_queue set leased = 1, locked_until = 9000000000000000
        where leased = 0 and rand() < 0.1;
        insert into postroom_outbox_parked
            (seq, band, wake_at, id, topic_hash, priority, lost)
        select seq, band, 1 + floor(rand() * 5), id, topic_hash, -band, lost
        from postroom_outbox_queue
        where leased = 0 and rand() < 0.3;
        delete queue from postroom_outbox_queue as queue
        join postroom_outbox_parked as parked on parked.seq = queue.seq;
        update postroom_outbox_parked set wake_at = 9000000000000000 where rand() < 0.2";
    run(&my.pool, sql).await;
}

async fn candidates(my: &My) -> Vec<Candidate> {
    let sql = "select seq, band, 1 as queued, 0 as waited, leased = 1 or lost > 0 as suspect
        from postroom_outbox_queue
        where leased = 0 or locked_until = 1
        union all
        select seq, band, 0, wake_at, lost > 0
        from postroom_outbox_parked
        where wake_at < 100";
    let rows = sqlx::query(sql).fetch_all(&my.pool).await.expect("rows");
    let mut candidates: Vec<_> = rows
        .iter()
        .map(|row| Candidate {
            band: row.get("band"),
            queued: row.get::<i64, _>("queued") == 1,
            waited: row.get("waited"),
            seq: row.get("seq"),
            suspect: row.get::<i64, _>("suspect") == 1,
        })
        .collect();
    candidates.sort();
    candidates
}

/// The rule, in its plainest form.
fn expected(candidates: &[Candidate], batch: u32, mut suspects: u32) -> Vec<i64> {
    let mut taken = Vec::new();
    for candidate in candidates {
        if taken.len() == batch as usize {
            break;
        }
        if candidate.suspect {
            if suspects == 0 {
                continue;
            }
            suspects -= 1;
        }
        taken.push(candidate.seq);
    }
    taken
}

#[tokio::test]
async fn wq_1_random_queues_are_claimed_in_the_order_of_the_rule() {
    let my = My::on_database_time().await;
    for (rows, batch, suspects) in [
        (10, 50, 1),
        (40, 50, 3),
        (40, 7, 1),
        (60, 5, 5),
        (200, 20, 0),
        (200, 20, 4),
        (400, 100, 10),
        (1_000, 30, 30),
    ] {
        empty(&my).await;
        scatter(&my, rows).await;
        let before = candidates(&my).await;
        // Several in a row, because each leaves another queue behind.
        let mut left = before.clone();
        for turn in 0..4 {
            let want = expected(&left, batch, suspects);
            // A handle of its own each time: it has no memory of where to start.
            let claim = Claim::new(OwnerToken::random(), LEASE, batch).expect("legal");
            let store = on_pool(my.pool.clone());
            let items = store.claim(&claim.suspects(suspects)).await.expect("claims").items;
            let got: Vec<_> = items.iter().map(|item| item.lease.work.seq()).collect();
            assert_eq!(got, want, "turn {turn} of {batch}/{suspects} on {before:?}");
            left.retain(|candidate| !got.contains(&candidate.seq));
        }
    }
    my.finish().await;
}

#[tokio::test]
async fn b38_a_late_commit_with_a_lower_place_is_not_skipped() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let mut late = outbox.begin().await.expect("begins");
    let late_id = late.publish(plain()).expect("legal");
    let late_work = late.flush().await.expect("takes its place")[0].work.expect("new");
    let early = outbox.publish(plain()).await.expect("publishes");
    assert!(late_work < early.work.expect("new"));
    let first = claim(&my, 10, 1).await;
    assert_eq!(first.iter().map(|item| item.message.id()).collect::<Vec<_>>(), [early.id]);
    late.commit().await.expect("commits");
    let second = claim(&my, 10, 1).await;
    assert_eq!(second.iter().map(|item| item.message.id()).collect::<Vec<_>>(), [late_id]);
    my.finish().await;
}

#[tokio::test]
async fn wq_1_a_row_without_its_message_dies_alone() {
    let my = My::on_database_time().await;
    let published = Outbox::new(my.store()).publish_all([plain(), plain()]).await;
    let published = published.expect("publishes");
    let delete = sqlx::query("delete from postroom_outbox_message where id = ?");
    delete.bind(published[0].id.as_uuid()).execute(&my.pool).await.expect("deletes");
    let claimed = claim(&my, 10, 1).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].message.id(), published[1].id);
    let reason = "select reason from postroom_outbox_settled where id = ?";
    let reason = sqlx::query_scalar::<_, i16>(reason).bind(published[0].id.as_uuid());
    assert_eq!(reason.fetch_one(&my.pool).await.expect("settled"), 5);
    my.finish().await;
}

#[tokio::test]
async fn wq_4_the_token_decides_and_not_the_owner() {
    let my = My::on_database_time().await;
    let (me, items) = hold(&my, 1).await;
    let token = sqlx::query("update postroom_outbox_queue set token = ?").bind(Uuid::new_v4());
    token.execute(&my.pool).await.expect("is taken over");
    for settlement in [Settlement::Done, Settlement::Release] {
        let settled = my.store.settle(me, &[(items[0].lease, settlement)]).await.expect("answers");
        assert_eq!((settled.applied, settled.lost), (0, vec![items[0].lease]));
    }
    my.finish().await;
}

/// Whatever keeps the engine's connections busy, leases are renewed.
#[tokio::test(flavor = "multi_thread")]
async fn wq_7_a_renewal_has_a_connection_of_its_own() {
    let my = My::on_database_time().await;
    let (me, items) = hold(&my, 11).await;
    let mut rival = my.pool.begin().await.expect("begins");
    for item in &items[1..] {
        lock_place(&mut rival, item).await.expect("nobody has it");
    }
    let busy: Vec<_> = items[1..]
        .iter()
        .map(|item| {
            let (store, done) = (my.store(), [(item.lease, Settlement::Done)]);
            tokio::spawn(async move { store.settle(me, &done).await })
        })
        .collect();
    until_waiting(&my, 10).await;
    let renewed = my.store.renew(me, &[items[0].lease], LEASE).await.expect("renews");
    assert_eq!(renewed.applied, 1);
    rival.rollback().await.expect("ends");
    for busy in busy {
        // It waited for the lock, perhaps for too long.
        match busy.await.expect("no panic") {
            Ok(settled) => assert_eq!(settled.applied, 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Contention, "{error}"),
        }
    }
    my.finish().await;
}
