//! Processes on one PostgreSQL database, and what becomes of their work when they are killed and
//! stopped.

use std::sync::Arc;

use crate::postgres_support::{Pg, url};
use postroom_stores::{PgStore, StoreConfig};
use postroom_testkit::Harness;
use postroom_testkit::faults::{self, Orders, Site};
use tempfile::TempDir;

async fn open(schema: &str) -> Arc<PgStore> {
    let config = StoreConfig { schema: schema.to_owned(), ..StoreConfig::default() };
    Arc::new(PgStore::connect(&url(), config).await.expect("the test server answers"))
}

fn site(pg: &Pg, folder: &TempDir) -> Site<PgStore> {
    let (store, address) = (pg.store(), pg.schema.clone());
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
    let (pg, folder) = (Pg::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::three_processes_survive(&site(&pg, &folder)).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o1_order_survives_kills_stops_and_failures() {
    let (pg, folder) = (Pg::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::order_survives(&site(&pg, &folder), 10_000).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_a_message_that_kills_its_process_dies_alone() {
    let (pg, folder) = (Pg::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_killer_dies_alone(&site(&pg, &folder)).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_a_terminated_process_leaves_nothing_behind() {
    let (pg, folder) = (Pg::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_terminated_process_leaves_nothing_behind(&site(&pg, &folder)).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_thousand_members_one_follow_up() {
    let (pg, folder) = (Pg::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_join_survives(&site(&pg, &folder), 1_000).await;
    pg.finish().await;
}
