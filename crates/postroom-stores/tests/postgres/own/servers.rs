//! Many databases of one server: connections within a budget, and one listener for all.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, Store, TransactionalStore as _, Wakes};
use postroom_core::{Clock, ErrorKind, ManualClock, Message, Outbox};
use postroom_stores::{PgServers, PgStore, StoreConfig};
use postroom_testkit::Harness;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::home_support;
use crate::postgres_support::{Pg, url};
use crate::wakes_support::{PATIENCE, listening, until_wakes};

/// Databases for one test, dropped at its end.
struct Tenants {
    names: Vec<String>,
    server: PgConnection,
}

impl Tenants {
    async fn new(count: usize) -> Self {
        let mut server = PgConnection::connect(&url()).await.expect("the test server answers");
        let test = Uuid::new_v4().simple().to_string();
        let names: Vec<_> = (0..count).map(|n| format!("tenant_{}_{n}", &test[..8])).collect();
        for name in &names {
            let sql = format!("create database {name}");
            server.execute(AssertSqlSafe(sql)).await.expect("a database");
        }
        Self { names, server }
    }

    fn url(&self, number: usize) -> String {
        let options: PgConnectOptions = url().parse().expect("a URL");
        options.database(&self.names[number]).to_url_lossy().to_string()
    }

    async fn open(&self, servers: &PgServers, number: usize) -> Arc<PgStore> {
        let store = servers.connect(&self.url(number), StoreConfig::default()).await;
        let store = store.expect("opens");
        store.migrate().await.expect("migrates");
        Arc::new(store)
    }

    /// How many connections the server has to the databases of this test.
    async fn connections(&mut self) -> i64 {
        let sql = "select count(*) from pg_stat_activity where datname = any($1)";
        let counted = sqlx::query_scalar(sql).bind(&self.names).fetch_one(&mut self.server);
        counted.await.expect("a count")
    }

    async fn drop(mut self) {
        for name in &self.names {
            let sql = format!("drop database {name} with (force)");
            self.server.execute(AssertSqlSafe(sql)).await.expect("dropped");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_stores_of_one_server_share_its_connections() {
    let mut tenants = Tenants::new(8).await;
    let servers = PgServers::new(4).expect("a legal number");
    let mut stores = Vec::new();
    for number in 0..8 {
        stores.push(tenants.open(&servers, number).await);
    }
    // All at once, each with transactions of the application and calls of the engine.
    let mut work = JoinSet::new();
    for store in stores.iter().flat_map(|store| [Arc::clone(store), Arc::clone(store)]) {
        work.spawn(async move {
            let outbox = Outbox::new(Arc::clone(&store));
            for _ in 0..5 {
                outbox.publish(Message::builder("t")).await.expect("publishes");
                let _ = store.reap(10, 10).await.expect("reaps");
                store.stats().await.expect("counts");
            }
        });
    }
    let mut most = 0;
    while !work.is_empty() {
        most = most.max(tenants.connections().await);
        while let Some(ended) = work.try_join_next() {
            ended.expect("every call was answered");
        }
        sleep(Duration::from_millis(5)).await;
    }
    // A process of the server ends a moment after its connection.
    assert!((2..=7).contains(&most), "{most} connections at most, with a budget of 4");
    let waiting = async {
        while tenants.connections().await > 4 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("no more than the budget");
    for store in &stores {
        assert_eq!(store.stats().await.expect("counts").ready, 10);
        store.close().await;
    }
    tenants.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_transactions_that_stay_open_leave_connections_to_the_engine() {
    let tenants = Tenants::new(3).await;
    let servers = PgServers::new(5).expect("a legal number");
    let mut stores = Vec::new();
    for number in 0..3 {
        stores.push(tenants.open(&servers, number).await);
    }
    // One connection is for renewals, and of four the application has two.
    let open = [stores[0].begin().await.expect("begins"), stores[1].begin().await.expect("begins")];
    let refused = stores[2].begin().await.expect_err("nobody ends a transaction");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    for store in &stores {
        let _ = store.reap(10, 10).await.expect("the engine goes on");
    }
    drop(open);
    drop(stores[2].begin().await.expect("there is one again"));
    for connections in [0, 2, 10_001] {
        let refused = PgServers::new(connections).expect_err("too few or too many");
        assert!(refused.to_string().contains("3 to 10000"), "{refused}");
    }
    tenants.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_a_connection_that_the_server_closed_is_replaced() {
    let mut tenants = Tenants::new(1).await;
    let servers = PgServers::new(3).expect("a legal number");
    let store = tenants.open(&servers, 0).await;
    let _ = store.reap(10, 10).await.expect("reaps");
    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = $1";
    let ended = sqlx::query_scalar::<_, i64>(sql).bind(&tenants.names[0]);
    assert!(ended.fetch_one(&mut tenants.server).await.expect("ends them") > 0);
    // What is idle for a second is asked whether it lives; before that a call may fail once.
    sleep(Duration::from_millis(1_100)).await;
    let _ = store.reap(10, 10).await.expect("reaps");
    drop(store.begin().await.expect("begins"));
    tenants.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_4_one_listener_hears_for_all_databases_of_a_server() {
    let mut tenants = Tenants::new(3).await;
    let database = url().parse::<PgConnectOptions>().expect("a URL");
    let database = database.get_database().expect("its database").to_owned();
    let process = || PgServers::new(5).expect("a legal number").doorbell(&database);
    let (here, there) = (process(), process());
    let mut listeners = Vec::new();
    for number in 0..3 {
        let store = tenants.open(&here, number).await;
        let listening = listening(&store);
        until_wakes(&*store, Wakes::Listening).await;
        listeners.push((store, listening));
    }
    let sql = "select count(*) from pg_stat_activity
        where application_name = 'postroom-listen' and datname = any($1)";
    let in_tenants = sqlx::query_scalar::<_, i64>(sql).bind(&tenants.names);
    assert_eq!(in_tenants.fetch_one(&mut tenants.server).await.expect("a count"), 0);
    for number in [2, 0, 1, 2] {
        let store = tenants.open(&there, number).await;
        let published = Outbox::new(Arc::clone(&store)).publish(Message::builder("t")).await;
        // Only the one that was rung for wakes: the others poll once an hour.
        assert_eq!(listeners[number].1.next().await, published.expect("publishes").id);
        store.close().await;
    }
    for (store, listening) in listeners {
        listening.shutdown().await;
        store.close().await;
    }
    tenants.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_processes_divide_the_stores() {
    let clock = ManualClock::default();
    let pg = Pg::fresh(clock.clone(), Default::default()).await;
    home_support::processes_divide_the_stores(&|fleet| pg.store.home(fleet), &clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_5_of_many_processes_at_once_nobody_gets_what_another_has() {
    let pg = Pg::lent("home", StoreConfig { clock: Clock::Database, ..StoreConfig::default() });
    let (pg, _) = pg.await;
    home_support::of_many_at_once_nobody_gets_what_another_has(&|fleet| pg.store.home(fleet)).await;
}
