//! Many databases of one server, and a home for the processes that serve them.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, Store};
use postroom_core::{ManualClock, Message, Outbox};
use postroom_stores::{MySqlServers, StoreConfig};
use postroom_testkit::Harness;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::home_support;
use crate::mysql_support::{My, create_database, pool_for, run_on_server, url};

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_stores_of_one_server_share_its_connections() {
    let servers = MySqlServers::new(4).expect("a legal number");
    let mut stores = Vec::new();
    for _ in 0..4 {
        let database = create_database().await;
        let store = servers.connect(&url(&database), StoreConfig::default()).await.expect("opens");
        store.migrate().await.expect("migrates");
        stores.push((database, Arc::new(store)));
    }
    let names: Vec<_> = stores.iter().map(|(name, _)| format!("'{name}'")).collect();
    let sql = format!(
        "select count(*) from information_schema.processlist where db in ({})",
        names.join(", ")
    );
    let watching = pool_for("information_schema");
    let connections = async || -> i64 {
        let sql = sqlx::AssertSqlSafe(sql.clone());
        sqlx::query_scalar(sql).fetch_one(&watching).await.expect("a count")
    };
    let mut work = JoinSet::new();
    for (_, store) in stores.iter().flat_map(|store| [store.clone(), store.clone()]) {
        work.spawn(async move {
            let outbox = Outbox::new(Arc::clone(&store));
            for _ in 0..5 {
                outbox.publish(Message::builder("t")).await.expect("publishes");
                let _ = store.reap(10, 10).await.expect("reaps");
            }
        });
    }
    let mut most = 0;
    while !work.is_empty() {
        most = most.max(connections().await);
        while let Some(ended) = work.try_join_next() {
            ended.expect("every call was answered");
        }
        sleep(Duration::from_millis(5)).await;
    }
    // A thread of the server ends a moment after its connection.
    assert!((2..=7).contains(&most), "{most} connections at most, with a budget of 4");
    let waiting = async {
        while connections().await > 4 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_mins(1), waiting).await.expect("no more than the budget");
    for (database, store) in &stores {
        assert_eq!(store.stats().await.expect("counts").ready, 10);
        store.close().await;
        run_on_server(format!("drop database {database}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_processes_divide_the_stores() {
    let clock = ManualClock::default();
    let my = My::fresh(clock.clone(), Default::default()).await;
    home_support::processes_divide_the_stores(&|fleet| my.store.home(fleet), &clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_of_many_processes_at_once_nobody_gets_what_another_has() {
    let my = My::fresh(ManualClock::default(), Default::default()).await;
    home_support::of_many_at_once_nobody_gets_what_another_has(&|fleet| my.store.home(fleet)).await;
}
