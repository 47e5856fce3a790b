//! Effects that happen once on MariaDB, whatever happens to the processes that have them.

use std::sync::Arc;

use crate::mysql_support::{My, open};
use postroom_stores::MySqlStore;
use postroom_testkit::around::Step;
use postroom_testkit::faults::{self, Orders, Site};
use postroom_testkit::{Harness, cases, effects};
use tempfile::TempDir;

fn site(my: &My, folder: &TempDir) -> Site<MySqlStore> {
    let (store, address) = (my.store(), my.database.clone());
    Site { store, address, folder: folder.path().to_owned(), entry: "effects::service_process" }
}

/// What the other tests start as processes of their own. Without orders there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn service_process() {
    if let Some(orders) = Orders::given() {
        faults::take_effect(My::lent(&orders.address).await, orders).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_effects_survive_kills_at_every_step() {
    let (my, folder) = (My::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    let site = site(&my, &folder);
    let kills = faults::effects_survive_kills(&site, &my, cases(50) as usize).await;
    println!("{kills:?}");
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_a_process_that_was_stopped_in_its_effect_is_rolled_back() {
    let (my, folder) = (My::on_database_time().await, tempfile::tempdir().expect("a temp folder"));
    faults::a_stopped_process_has_no_effect(&site(&my, &folder), &my, "effect").await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inb_3_a_handler_that_lost_its_lease_is_rolled_back() {
    effects::a_late_handler_has_no_effect::<My>(Step::Settling).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_of_sixteen_copies_one_is_received() {
    let my = My::on_database_time().await;
    effects::copies_are_received_once(&[my.store(), open(&my.database).await]).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b41_of_sixteen_copies_in_transactions_one_takes_effect() {
    let my = Arc::new(My::on_database_time().await);
    let stores = [my.store(), open(&my.database).await];
    effects::copies_take_effect_once(&my, &stores, true).await;
    Arc::into_inner(my).expect("all tasks have ended").finish().await;
}
