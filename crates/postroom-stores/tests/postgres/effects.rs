//! Effects that happen once on PostgreSQL, whatever happens to the processes that have them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::postgres_support::{Pg, pool_for, url};
use postroom_core::{Inbox, Once, Outbox};
use postroom_stores::{PgStore, StoreConfig};
use postroom_testkit::around::Step;
use postroom_testkit::faults::{self, Orders, Site};
use postroom_testkit::{Harness, cases, effects};
use tempfile::TempDir;
use tokio::task::JoinSet;

async fn open(schema: &str) -> Arc<PgStore> {
    let config = StoreConfig { schema: schema.to_owned(), ..StoreConfig::default() };
    Arc::new(PgStore::connect(&url(), config).await.expect("the test server answers"))
}

fn site(pg: &Pg, folder: &TempDir) -> Site<PgStore> {
    let (store, address) = (pg.store(), pg.schema.clone());
    Site { store, address, folder: folder.path().to_owned(), entry: "effects::service_process" }
}

/// What the other tests start as processes of their own. Without orders there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn service_process() {
    if let Some(orders) = Orders::given() {
        let schema = orders.address.clone();
        let store = open(&schema).await;
        let pg = Pg { store, pool: pool_for(&schema), schema, loan: None };
        faults::take_effect(pg, orders).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_effects_survive_kills_at_every_step() {
    let (pg, folder) = (Pg::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    let site = site(&pg, &folder);
    let kills = faults::effects_survive_kills(&site, &pg, cases(50) as usize).await;
    println!("{kills:?}");
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_a_process_that_was_stopped_in_its_effect_is_rolled_back() {
    let (pg, folder) = (Pg::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_stopped_process_has_no_effect(&site(&pg, &folder), &pg, "effect").await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_a_handler_that_lost_its_lease_is_rolled_back() {
    effects::a_late_handler_has_no_effect::<Pg>(Step::Settling).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_of_sixteen_copies_one_is_received() {
    let pg = Pg::on_database_time().await;
    effects::copies_are_received_once(&[pg.store(), open(&pg.schema).await]).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_of_sixteen_copies_in_transactions_one_takes_effect() {
    let pg = Arc::new(Pg::on_database_time().await);
    let stores = [pg.store(), open(&pg.schema).await];
    effects::copies_take_effect_once(&pg, &stores, true).await;
    Arc::into_inner(pg).expect("all tasks have ended").finish().await;
}

/// Waits until so many sessions wait for the end of this one.
async fn until_blocked(pg: &Pg, session: i32, sessions: i64) {
    let until = Instant::now() + Duration::from_secs(60);
    let sql = "select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))";
    loop {
        let count = sqlx::query_scalar(sql).bind(session).fetch_one(&pg.pool);
        let blocked: i64 = count.await.expect("a count");
        if blocked >= sessions {
            return;
        }
        assert!(Instant::now() < until, "only {blocked} wait");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_when_the_first_copy_rolls_back_one_other_is_the_first() {
    let pg = Pg::on_database_time().await;
    let stores = [pg.store(), open(&pg.schema).await];
    let inbox = |store: &Arc<PgStore>| {
        Inbox::new(&Outbox::new(Arc::clone(store)), "billing").expect("a good name")
    };
    let first = inbox(&stores[0]);
    let mut tx = first.outbox().begin().await.expect("begin");
    let pid = sqlx::query_scalar("select pg_backend_pid()").fetch_one(tx.conn()).await;
    let once = first.once(tx.conn(), "shop", "order-7").await.expect("an answer");
    assert_eq!(once, Once::First);
    let mut others = JoinSet::new();
    for store in stores.iter().cycle().take(15) {
        let inbox = inbox(store);
        others.spawn(async move {
            let mut tx = inbox.outbox().begin().await.expect("begin");
            let once = inbox.once(tx.conn(), "shop", "order-7").await.expect("an answer");
            tx.commit().await.expect("commit");
            once
        });
    }
    until_blocked(&pg, pid.expect("its session"), 15).await;
    tx.rollback().await.expect("rollback");
    let answers = others.join_all().await;
    assert_eq!(answers.iter().filter(|once| **once == Once::First).count(), 1, "{answers:?}");
    pg.finish().await;
}
