//! MySQL and MariaDB from Python and Node.js: the scripts in `languages/mysql`. Producers and
//! workers have the rights of their roles, and no others.

use crate::roles::mysql_roles_support::{As, Producer, Worker, url_as};
use crate::scripts::{Place, publishes, works};
use postroom_testkit::Harness;

/// What names of tables and procedures begin with.
const SCHEMA: &str = "postroom";

async fn publishes_from(script: &'static str, code: &str) {
    let env = As::<Producer>::on_database_time().await;
    let place = Place { url: &url_as::<Producer>(&env.owner), schema: SCHEMA };
    assert_eq!(publishes(&env.owner, script, &place).await, code);
    env.finish().await;
}

async fn works_from(script: &'static str) {
    let env = As::<Worker>::on_database_time().await;
    let place = Place { url: &url_as::<Worker>(&env.owner), schema: SCHEMA };
    works(&env.owner, script, &place).await;
    env.finish().await;
}

/// PyMySQL knows the server's number of an error, and not its SQLSTATE.
#[tokio::test(flavor = "multi_thread")]
async fn pub_8_python_publishes_in_its_own_transaction() {
    publishes_from("mysql/publish.py", "1644").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pub_8_node_publishes_in_its_own_transaction() {
    publishes_from("mysql/publish.js", "22023").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wq_3_a_worker_in_python_settles_what_rust_published() {
    works_from("mysql/work.py").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wq_3_a_worker_in_node_settles_what_rust_published() {
    works_from("mysql/work.js").await;
}
