//! Processes on one SQLite file, and what becomes of their work when they are killed and stopped.

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_stores::{SqliteStore, StoreConfig};
use postroom_testkit::faults::{self, Orders, Site};
use tempfile::TempDir;

async fn open(path: &str) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(path, StoreConfig::default()).await.expect("open"))
}

async fn site(folder: &TempDir) -> Site<SqliteStore> {
    let path = folder.path().join("postroom.db");
    let address = path.to_str().expect("a plain path").to_owned();
    let store = open(&address).await;
    store.migrate().await.expect("migrate");
    Site { store, address, folder: folder.path().to_owned(), entry: "faults::worker_process" }
}

/// What the other tests start as processes of their own. Without orders there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn worker_process() {
    if let Some(orders) = Orders::given() {
        faults::work(open(&orders.address).await, orders).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f01_f02_three_processes_survive_a_kill_and_a_stop() {
    let folder = tempfile::tempdir().expect("a temp folder");
    faults::three_processes_survive(&site(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o1_order_survives_kills_stops_and_failures() {
    let folder = tempfile::tempdir().expect("a temp folder");
    faults::order_survives(&site(&folder).await, 10_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_a_message_that_kills_its_process_dies_alone() {
    let folder = tempfile::tempdir().expect("a temp folder");
    faults::a_killer_dies_alone(&site(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_a_terminated_process_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a temp folder");
    faults::a_terminated_process_leaves_nothing_behind(&site(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_thousand_members_one_follow_up() {
    let folder = tempfile::tempdir().expect("a temp folder");
    faults::a_join_survives(&site(&folder).await, 1_000).await;
}
