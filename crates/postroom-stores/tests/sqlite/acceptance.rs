//! The acceptance tests of the origin of the hot path, on SQLite.

use crate::sqlite_harness::{InFile, SqliteIn, open_in};
use postroom_core::ManualClock;
use postroom_testkit::{Harness, Options, acceptance};

#[tokio::test(flavor = "multi_thread")]
async fn atomicity() {
    let harness = SqliteIn::<InFile>::fresh(ManualClock::default(), Options::default()).await;
    acceptance::atomicity(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_and_fast_path() {
    let folder = tempfile::tempdir().expect("a temp folder");
    acceptance::commit_and_fast_path(open_in(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_overflow_downgrade() {
    let folder = tempfile::tempdir().expect("a temp folder");
    acceptance::queue_overflow_downgrade(open_in(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_dead() {
    let folder = tempfile::tempdir().expect("a temp folder");
    acceptance::retry_dead(open_in(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn type_safe_event_type() {
    let folder = tempfile::tempdir().expect("a temp folder");
    acceptance::type_safe_event_type(open_in(&folder).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn type_safe_aggregate_type() {
    let folder = tempfile::tempdir().expect("a temp folder");
    acceptance::type_safe_aggregate_type(open_in(&folder).await).await;
}
