//! The acceptance tests of the origin of the hot path, on PostgreSQL.

use crate::postgres_support::Pg;
use postroom_testkit::{Harness, acceptance};

#[tokio::test(flavor = "multi_thread")]
async fn atomicity() {
    let pg = Pg::on_database_time().await;
    acceptance::atomicity(&pg).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_and_fast_path() {
    let pg = Pg::on_database_time().await;
    acceptance::commit_and_fast_path(pg.store()).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_overflow_downgrade() {
    let pg = Pg::on_database_time().await;
    acceptance::queue_overflow_downgrade(pg.store()).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_dead() {
    let pg = Pg::on_database_time().await;
    acceptance::retry_dead(pg.store()).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn type_safe_event_type() {
    let pg = Pg::on_database_time().await;
    acceptance::type_safe_event_type(pg.store()).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn type_safe_aggregate_type() {
    let pg = Pg::on_database_time().await;
    acceptance::type_safe_aggregate_type(pg.store()).await;
    pg.finish().await;
}
