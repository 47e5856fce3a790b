//! Effects that happen once on SQLite, whatever happens to the processes that have them.

use std::sync::Arc;

use crate::sqlite_harness::{InFile, SqliteIn, open_in};
use postroom_stores::{SqliteStore, StoreConfig};
use postroom_testkit::around::Step;
use postroom_testkit::faults::{self, Orders, Site};
use postroom_testkit::{cases, effects};
use tempfile::TempDir;

type Service = SqliteIn<InFile>;

async fn site(folder: &TempDir) -> Site<SqliteStore> {
    let store = open_in(folder).await;
    Service::set_up(&store).await;
    let address = folder.path().join("postroom.db").to_str().expect("a plain path").to_owned();
    Site { store, address, folder: folder.path().to_owned(), entry: "effects::service_process" }
}

async fn assert_intact(store: &SqliteStore) {
    let check = sqlx::query_scalar("pragma integrity_check").fetch_all(store.writer());
    let problems: Vec<String> = check.await.expect("a check");
    assert_eq!(problems, ["ok"]);
}

/// What the other tests start as processes of their own. Without orders there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn service_process() {
    if let Some(orders) = Orders::given() {
        let store = SqliteStore::open(&orders.address, StoreConfig::default()).await;
        faults::take_effect(Service::on(Arc::new(store.expect("open"))), orders).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_effects_survive_kills_at_every_step() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let site = site(&folder).await;
    let service = Service::on(Arc::clone(&site.store));
    let kills = faults::effects_survive_kills(&site, &service, cases(50) as usize).await;
    println!("{kills:?}");
    assert_intact(&site.store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_a_process_that_was_stopped_before_its_effect_has_none() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let site = site(&folder).await;
    let service = Service::on(Arc::clone(&site.store));
    faults::a_stopped_process_has_no_effect(&site, &service, "beginning").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_a_handler_that_lost_its_lease_is_rolled_back() {
    effects::a_late_handler_has_no_effect::<Service>(Step::Beginning).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_of_sixteen_copies_one_is_received() {
    let folder = tempfile::tempdir().expect("a temp folder");
    effects::copies_are_received_once(&[open_in(&folder).await, open_in(&folder).await]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_of_sixteen_copies_in_transactions_one_takes_effect() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let stores = [open_in(&folder).await, open_in(&folder).await];
    Service::set_up(&stores[0]).await;
    let service = Arc::new(Service::on(Arc::clone(&stores[0])));
    effects::copies_take_effect_once(&service, &stores, false).await;
}
