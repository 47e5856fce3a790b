//! The dispatcher on PostgreSQL.

#![cfg(feature = "postgres")]

mod postgres_support;

use std::sync::Arc;

use postgres_support::Pg;
use postroom_testkit::{Harness, dispatch};

#[tokio::test(flavor = "multi_thread")]
async fn dsp_1_everything_is_handled_once() {
    let pg = Pg::on_database_time().await;
    dispatch::everything_is_handled_once(Arc::clone(&pg.store), 4_000).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_hot_messages_are_handled_once() {
    let pg = Pg::on_database_time().await;
    let messages = 200 * postroom_testkit::cases(10) as usize;
    dispatch::hot_messages_are_handled_once(Arc::clone(&pg.store), messages).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ord_1_order_holds_while_dispatchers_come_and_go() {
    let pg = Pg::on_database_time().await;
    let messages = 300 * postroom_testkit::cases(10) as usize;
    dispatch::order_holds(Arc::clone(&pg.store), messages, 100).await;
    pg.finish().await;
}
