//! The acceptance tests of the origin of the hot path, on MariaDB.

use crate::mysql_support::My;
use postroom_testkit::{Harness, acceptance};

#[tokio::test(flavor = "multi_thread")]
async fn atomicity() {
    let my = My::on_database_time().await;
    acceptance::atomicity(&my).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_and_fast_path() {
    let my = My::on_database_time().await;
    acceptance::commit_and_fast_path(my.store()).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_overflow_downgrade() {
    let my = My::on_database_time().await;
    acceptance::queue_overflow_downgrade(my.store()).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_dead() {
    let my = My::on_database_time().await;
    acceptance::retry_dead(my.store()).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn type_safe_event_type() {
    let my = My::on_database_time().await;
    acceptance::type_safe_event_type(my.store()).await;
    my.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn type_safe_aggregate_type() {
    let my = My::on_database_time().await;
    acceptance::type_safe_aggregate_type(my.store()).await;
    my.finish().await;
}
