//! PostgreSQL from Python and Node.js: the scripts in `languages/postgres`. Producers and workers
//! have the rights of their roles, and no others.

use crate::roles::postgres_roles_support::{As, Producer, Who as _, Worker, url_as};
use crate::scripts::{Place, publishes, works};
use postroom_testkit::Harness;

async fn publishes_from(script: &'static str) {
    let env = As::<Producer>::on_database_time().await;
    let place = Place { url: &url_as(Producer::ROLE), schema: env.schema() };
    assert_eq!(publishes(&env.owner.0, script, &place).await, "22023");
    env.finish().await;
}

async fn works_from(script: &'static str) {
    let env = As::<Worker>::on_database_time().await;
    let place = Place { url: &url_as(Worker::ROLE), schema: env.schema() };
    works(&env.owner.0, script, &place).await;
    env.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pub_8_python_publishes_in_its_own_transaction() {
    publishes_from("postgres/publish.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pub_8_node_publishes_in_its_own_transaction() {
    publishes_from("postgres/publish.js").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wq_3_a_worker_in_python_settles_what_rust_published() {
    works_from("postgres/work.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wq_3_a_worker_in_node_settles_what_rust_published() {
    works_from("postgres/work.js").await;
}
