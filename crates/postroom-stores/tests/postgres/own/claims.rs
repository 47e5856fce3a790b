//! What a claim takes, and what it leaves to others.

use std::collections::BTreeSet;
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{AdminStore, Claim, Store, WorkItem};
use postroom_core::{Message, MessageBuilder, Outbox, OwnerToken, WorkQueue};
use postroom_testkit::Harness;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};
use uuid::Uuid;

use crate::postgres_support::{Pg, run};

fn plain() -> MessageBuilder {
    Message::builder("t").payload("x")
}

async fn claim(pg: &Pg, batch: u32, suspects: u32) -> Vec<WorkItem> {
    let claim = Claim::new(OwnerToken::random(), Duration::from_secs(30), batch);
    let claim = claim.expect("legal").suspects(suspects);
    pg.store.claim(&claim).await.expect("claims").items
}

#[tokio::test]
async fn b38_a_late_commit_with_a_lower_place_is_not_skipped() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let mut late = outbox.begin().await.expect("begins");
    let late_id = late.publish(plain()).expect("legal");
    let late_work = late.flush().await.expect("takes its place")[0].work.expect("new");
    let early = outbox.publish(plain()).await.expect("publishes");
    assert!(late_work < early.work.expect("new"));
    let first = claim(&pg, 10, 1).await;
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].message.id(), early.id);
    late.commit().await.expect("commits");
    let second = claim(&pg, 10, 1).await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].message.id(), late_id);
    pg.finish().await;
}

/// A claim that starts above a row must not say that there is nothing: a benchmark whose tables
/// were made anew under a live store showed it, and so does a commit that comes very late.
#[tokio::test]
async fn wq_1_a_claim_that_finds_nothing_above_its_start_looks_below() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let mut late = outbox.begin().await.expect("begins");
    let late_id = late.publish(plain()).expect("legal");
    late.flush().await.expect("takes its place");
    for _ in 0..3 {
        outbox.publish(plain()).await.expect("publishes");
    }
    // Full batches move the start of later claims, once they are a second old.
    assert_eq!(claim(&pg, 1, 1).await.len(), 1);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(claim(&pg, 1, 1).await.len(), 1, "this one looks at everything");
    assert_eq!(claim(&pg, 1, 1).await.len(), 1, "this one starts above the late row");
    late.commit().await.expect("commits");
    let found = claim(&pg, 1, 1).await;
    assert_eq!(found.len(), 1, "not only after the next full look");
    assert_eq!(found[0].message.id(), late_id);
    pg.finish().await;
}

#[tokio::test]
async fn b38_a_very_late_commit_is_found_by_a_claim_that_looks_at_everything() {
    let pg = Pg::on_database_time().await;
    let outbox = Outbox::new(pg.store());
    let mut late = outbox.begin().await.expect("begins");
    let late_id = late.publish(plain()).expect("legal");
    late.flush().await.expect("takes its place");
    outbox.publish(plain()).await.expect("publishes");
    assert_eq!(claim(&pg, 10, 1).await.len(), 1);
    // Long enough for claims to start behind the open transaction's place.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(claim(&pg, 10, 1).await.is_empty());
    late.commit().await.expect("commits");
    for _ in 0..120 {
        if let [item] = claim(&pg, 10, 1).await.as_slice() {
            assert_eq!(item.message.id(), late_id);
            return pg.finish().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not found within 6 s");
}

#[tokio::test]
async fn wq_5_what_this_process_releases_it_claims_again_at_once() {
    let pg = Pg::on_database_time().await;
    Outbox::new(pg.store()).publish_all((0..20).map(|_| plain())).await.expect("publishes");
    let queue = WorkQueue::new(pg.store());
    let me = OwnerToken::random();
    let claimed = queue.claim(me, Duration::from_secs(30), 20).await.expect("claims");
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    // One claim looks at everything; the ones after it do not.
    assert!(claim(&pg, 10, 1).await.is_empty());
    let settled = queue.release(me, &[claimed.items[3].lease]).await.expect("releases");
    assert_eq!(settled.applied, 1);
    assert_eq!(claim(&pg, 10, 1).await[0].lease.work, claimed.items[3].lease.work);
    pg.finish().await;
}

/// A claim that stays open, by the function that runs the same statement.
async fn claim_in(conn: &mut PgConnection, batch: i32) -> BTreeSet<i64> {
    let sql = "select seq from outbox_claim(gen_random_uuid(), batch => $1)";
    let seqs = sqlx::query_scalar::<_, i64>(sql).bind(batch).fetch_all(conn).await;
    seqs.expect("claims").into_iter().collect()
}

#[tokio::test]
async fn b19_a_claim_locks_only_what_it_returns() {
    let pg = Pg::on_database_time().await;
    let messages = (0..30).map(|_| plain()).chain((0..30).map(|_| plain().due_after(SOON)));
    Outbox::new(pg.store()).publish_all(messages).await.expect("publishes");
    run(&pg.pool, "update outbox_parked set wake_at = clock_timestamp()").await;
    let (mut a, mut b, mut c) =
        (pg.connection().await, pg.connection().await, pg.connection().await);
    let (mut a, mut b, mut c) = (
        a.begin().await.expect("begins"),
        b.begin().await.expect("begins"),
        c.begin().await.expect("begins"),
    );
    let first = claim_in(&mut a, 10).await;
    let second = claim_in(&mut b, 25).await;
    assert_eq!((first.len(), second.len()), (10, 25));
    assert!(first.is_disjoint(&second));
    // Everything else is free: the third gets exactly the rest.
    let third = claim_in(&mut c, 100).await;
    assert_eq!(third.len(), 25);
    assert!(third.is_disjoint(&first) && third.is_disjoint(&second));
    for tx in [a, b, c] {
        tx.rollback().await.expect("rolls back");
    }
    pg.finish().await;
}

const SOON: Duration = Duration::from_secs(3_600);

/// A row of the queue or of the waiting, as the reference sees it: in the order of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    minus_priority: i16,
    queued: bool,
    waited: i64,
    seq: i64,
    suspect: bool,
}

/// Writes random rows: all priorities, waiting and queued, fresh, suspect, held, not yet due.
async fn scatter(pg: &Pg, rows: i32) {
    let sql = "
        with made as (
            select
                number, gen_random_uuid() as id,
                (array[0, 0, 0, 1, 5, -1, -7])[1 + floor(random() * 7)] as priority,
                random() < 0.3 as parked, random() < 0.2 as lost, random() < 0.3 as held,
                random() < 0.5 as late, floor(random() * 5) as wait
            from generate_series(1, $1) as number
        ),
        message as (
            insert into outbox_message
                (id, seq, occurred_at, created_at, priority, topic, payload)
            select id, number, now(), now(), priority, 't', 'x' from made
        ),
        queue as (
            insert into outbox_queue
                (seq, id, topic_hash, attempts, lost, priority, token, owner, locked_until)
            select
                number, id, 0, 0, lost::integer, priority,
                case when held then gen_random_uuid() end,
                case when held then gen_random_uuid() end,
                case when held then now() + case when late then '-1 h' else '1 h' end::interval end
            from made
            where not parked
        )
        insert into outbox_parked (seq, id, topic_hash, attempts, lost, priority, wake_at)
        select
            number, id, 0, 0, lost::integer, priority,
            now() + case when late then -1 - wait else 1 end * interval '1 h'
        from made
        where parked";
    sqlx::query(sql).bind(rows).execute(&pg.pool).await.expect("rows");
}

async fn candidates(pg: &Pg) -> Vec<Candidate> {
    let sql = "
        select seq, priority, true as queued, 0::bigint as waited,
            token is not null or lost > 0 as suspect
        from outbox_queue
        where token is null or locked_until <= now()
        union all
        select seq, priority, false, extract(epoch from wake_at)::bigint, lost > 0
        from outbox_parked
        where wake_at <= now()";
    let rows = sqlx::query(sql).fetch_all(&pg.pool).await.expect("rows");
    let mut candidates: Vec<_> = rows
        .iter()
        .map(|row| Candidate {
            minus_priority: -row.get::<i16, _>("priority"),
            queued: row.get("queued"),
            waited: row.get("waited"),
            seq: row.get("seq"),
            suspect: row.get("suspect"),
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
    let pg = Pg::on_database_time().await;
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
        run(&pg.pool, "truncate outbox_message, outbox_queue, outbox_parked, outbox_attempt").await;
        scatter(&pg, rows).await;
        let before = candidates(&pg).await;
        // Several in a row, because each leaves another queue behind.
        let mut left = before.clone();
        for turn in 0..4 {
            let want = expected(&left, batch, suspects);
            let got: Vec<_> = claim(&pg, batch, suspects)
                .await
                .iter()
                .map(|item| item.lease.work.seq())
                .collect();
            assert_eq!(got, want, "turn {turn} of {batch}/{suspects} on {before:?}");
            left.retain(|candidate| !got.contains(&candidate.seq));
        }
    }
    pg.finish().await;
}

#[tokio::test]
async fn wq_1_a_row_without_its_message_dies_alone() {
    let pg = Pg::on_database_time().await;
    let published =
        Outbox::new(pg.store()).publish_all([plain(), plain()]).await.expect("publishes");
    let delete = sqlx::query("delete from outbox_message where id = $1");
    delete.bind(published[0].id.as_uuid()).execute(&pg.pool).await.expect("deletes");
    let claimed = claim(&pg, 10, 1).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].message.id(), published[1].id);
    let reason = sqlx::query_scalar::<_, i16>("select reason from outbox_settled where id = $1");
    let reason = reason.bind(published[0].id.as_uuid()).fetch_one(&pg.pool).await;
    assert_eq!(reason.expect("settled"), 5);
    pg.finish().await;
}

#[tokio::test]
async fn wq_4_the_token_decides_and_not_the_owner() {
    let pg = Pg::on_database_time().await;
    Outbox::new(pg.store()).publish(plain()).await.expect("publishes");
    let item = claim(&pg, 1, 1).await.remove(0);
    run(&pg.pool, "update outbox_queue set token = gen_random_uuid()").await;
    let owner = sqlx::query_scalar::<_, Uuid>("select owner from outbox_queue");
    let owner = owner.fetch_one(&pg.pool).await.expect("is held");
    let owner = OwnerToken::try_from(owner).expect("not nil");
    let done = [(item.lease, Settlement::Done)];
    let settled = pg.store.settle(owner, &done).await.expect("answers");
    assert_eq!((settled.applied, settled.lost), (0, vec![item.lease]));
    let release = [(item.lease, Settlement::Release)];
    let settled = pg.store.settle(owner, &release).await.expect("answers");
    assert_eq!(settled.lost, [item.lease]);
    pg.finish().await;
}

/// Whatever keeps the engine's connections busy, leases are renewed.
#[tokio::test(flavor = "multi_thread")]
async fn wq_7_a_renewal_has_a_connection_of_its_own() {
    let pg = Pg::on_database_time().await;
    Outbox::new(pg.store()).publish(plain()).await.expect("publishes");
    let (owner, lease) = (OwnerToken::random(), Duration::from_secs(30));
    let queue = WorkQueue::new(pg.store());
    let held = queue.claim(owner, lease, 1).await.expect("claims").items[0].lease;
    let mut lock = pg.pool.begin().await.expect("begins");
    let sql = "lock table outbox_settled in access exclusive mode";
    sqlx::query(sql).execute(&mut *lock).await.expect("locks");
    let store = pg.store();
    let busy: Vec<_> = (0..20)
        .map(|_| {
            let store = pg.store();
            tokio::spawn(async move { store.stats().await })
        })
        .collect();
    let waiting = "select count(*) from pg_locks \
        where relation = 'outbox_settled'::regclass and not granted";
    loop {
        let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(&pg.pool).await.expect("counts");
        if waiting >= 10 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let renewed = store.renew(owner, &[held], lease).await.expect("renews");
    assert_eq!(renewed.applied, 1);
    lock.rollback().await.expect("ends");
    for busy in busy {
        busy.await.expect("no panic").expect("it waited for the lock only");
    }
    pg.finish().await;
}
