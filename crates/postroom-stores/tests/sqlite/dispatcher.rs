//! The dispatcher on SQLite.

use std::sync::Arc;
use std::time::Duration;

use crate::sqlite_harness::open_in;
use postroom_core::store::AdminStore;
use postroom_stores::{SqliteStore, StoreConfig};
use postroom_testkit::dispatch;

#[tokio::test(flavor = "multi_thread")]
async fn dsp_1_everything_is_handled_once() {
    let folder = tempfile::tempdir().expect("a temp folder");
    dispatch::everything_is_handled_once(open_in(&folder).await, 4_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_hot_messages_are_handled_once() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let messages = 200 * postroom_testkit::cases(10) as usize;
    dispatch::hot_messages_are_handled_once(open_in(&folder).await, messages, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ord_1_order_holds_while_dispatchers_come_and_go() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let messages = 300 * postroom_testkit::cases(10) as usize;
    dispatch::order_holds(open_in(&folder).await, messages, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_a_hundred_thousand_hot_messages_are_handled_once() {
    let folder = tempfile::tempdir().expect("a temp folder");
    dispatch::hot_messages_are_handled_once(open_in(&folder).await, 100_000, 50).await;
}

/// F15: a minute of it in the long version; the short one on a simulated clock has a minute too.
#[tokio::test(flavor = "multi_thread")]
async fn dsp_7_an_outage_of_the_handler_is_met_with_backoff_and_then_all_is_done() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let away = if postroom_testkit::is_full() { 60 } else { 2 };
    dispatch::a_handler_that_is_away(open_in(&folder).await, Duration::from_secs(away)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_6_a_small_tenants_message_is_handled_before_a_third_batch_of_a_large_one() {
    let (messages, batch) = if postroom_testkit::is_full() { (100_000, 200) } else { (5_000, 50) };
    for (fair_tenants, soon) in [(true, true), (false, false)] {
        let folder = tempfile::tempdir().expect("a temp folder");
        let file = folder.path().join("fair.db");
        let config = StoreConfig { fair_tenants, ..StoreConfig::default() };
        let store = SqliteStore::open(&file.display().to_string(), config).await.expect("open");
        store.migrate().await.expect("migrate");
        let store = Arc::new(store);
        let before = dispatch::started_before_a_small_tenants(store, messages, batch).await;
        assert_eq!(before < 2 * batch as usize, soon, "{before} came first, {fair_tenants}");
    }
}
