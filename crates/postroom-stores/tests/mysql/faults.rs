//! Processes on one MariaDB database, and what becomes of their work when they are killed and
//! stopped.

use crate::mysql_support::{My, open};
use postroom_stores::MySqlStore;
use postroom_testkit::Harness;
use postroom_testkit::faults::{self, Orders, Site};
use tempfile::TempDir;

fn site(my: &My, folder: &TempDir) -> Site<MySqlStore> {
    let (store, address) = (my.store(), my.database.clone());
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
    let (my, folder) = (My::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::three_processes_survive(&site(&my, &folder)).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o1_order_survives_kills_stops_and_failures() {
    let (my, folder) = (My::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::order_survives(&site(&my, &folder), 10_000).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b24_a_message_that_kills_its_process_dies_alone() {
    let (my, folder) = (My::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_killer_dies_alone(&site(&my, &folder)).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f30_a_terminated_process_leaves_nothing_behind() {
    let (my, folder) = (My::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_terminated_process_leaves_nothing_behind(&site(&my, &folder)).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn join_1_a_thousand_members_one_follow_up() {
    let (my, folder) = (My::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_join_survives(&site(&my, &folder), 1_000).await;
    my.finish().await;
}
