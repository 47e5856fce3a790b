//! The dispatcher on SQLite.

#![cfg(feature = "sqlite")]

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_stores::{SqliteStore, StoreConfig};
use postroom_testkit::dispatch;

#[tokio::test(flavor = "multi_thread")]
async fn dsp_1_everything_is_handled_once() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let path = folder.path().join("postroom.db");
    let path = path.to_str().expect("a plain path");
    let store = SqliteStore::open(path, StoreConfig::default()).await.expect("open");
    store.migrate().await.expect("migrate");
    dispatch::everything_is_handled_once(Arc::new(store), 4_000).await;
}
