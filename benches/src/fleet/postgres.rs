//! Databases on one PostgreSQL server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use postroom_core::store::AdminStore as _;
use postroom_core::{Message, Outbox};
use postroom_stores::{PgServers, PgStore, StoreConfig};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tempfile::TempDir;

use super::crowd::Crowd;
use super::node::Task;
use super::{COME_TO_REST, LOOK_FOR, Seen};
use crate::report::numbers::digits;
use crate::report::{Case, Unit};

const CONNECTIONS: usize = 20;

/// Who of the databases change while the fleet runs.
const CHANGED: usize = 20;

const BACKLOG: usize = 100_000;

/// The databases, and the list that the processes read.
struct Tenants {
    server: PgConnection,
    options: PgConnectOptions,
    folder: TempDir,
    names: Vec<String>,
}

impl Tenants {
    async fn new(url: &str, count: usize) -> anyhow::Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        let server = PgConnection::connect_with(&options).await?;
        let folder = tempfile::tempdir()?;
        let mut tenants = Self { server, options, folder, names: Vec::new() };
        // It visits every database and counts as queries there.
        tenants.run("alter system set autovacuum = off").await?;
        tenants.run("select pg_reload_conf()").await?;
        tenants.run("drop database if exists fleet_template with (force)").await?;
        tenants.run("create database fleet_template").await?;
        let template = tenants.url("fleet_template");
        let template = PgStore::connect(&template, StoreConfig::default()).await?;
        template.migrate().await?;
        template.close().await;
        tenants.add(count, 0).await?;
        Ok(tenants)
    }

    async fn run(&mut self, sql: &str) -> anyhow::Result<()> {
        crate::postgres::run(&mut self.server, sql).await
    }

    fn url(&self, database: &str) -> String {
        self.options.clone().database(database).to_url_lossy().to_string()
    }

    async fn add(&mut self, count: usize, from: usize) -> anyhow::Result<()> {
        for number in from..from + count {
            let name = format!("fleet_{number:03}");
            self.run(&format!("drop database if exists {name} with (force)")).await?;
            self.run(&format!("create database {name} template fleet_template")).await?;
            self.names.push(name);
        }
        self.write_list()
    }

    fn write_list(&self) -> anyhow::Result<()> {
        let lines = self.names.iter().map(|name| format!("{name} {}\n", self.url(name)));
        let (path, new) = (self.list(), self.folder.path().join("new"));
        std::fs::write(&new, lines.collect::<String>())?;
        Ok(std::fs::rename(new, path)?)
    }

    fn list(&self) -> std::path::PathBuf {
        self.folder.path().join("list")
    }

    /// A message in each of these, as another service would publish it.
    async fn publish(&self, servers: &PgServers, names: &[String]) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            let store = servers.connect(&self.url(name), StoreConfig::default()).await?;
            let store = Arc::new(store);
            let published = Outbox::new(Arc::clone(&store)).publish(Message::builder("t")).await?;
            ids.push(published.id.to_string());
            store.close().await;
        }
        Ok(ids)
    }

    /// Transactions so far and connections now, of the databases that are served.
    async fn figures(&mut self) -> anyhow::Result<(i64, i64)> {
        let sql = "select
                (select sum(xact_commit + xact_rollback)::bigint
                    from pg_stat_database where datname = any($1)),
                (select count(*) from pg_stat_activity where datname like 'fleet\\_%'
                    or application_name like 'postroom%')";
        let figures = sqlx::query_as(sql).bind(&self.names).fetch_one(&mut self.server);
        Ok(figures.await?)
    }

    async fn drop(mut self) -> anyhow::Result<()> {
        let names = std::mem::take(&mut self.names);
        for name in names.iter().map(String::as_str).chain(["fleet_template"]) {
            self.run(&format!("drop database if exists {name} with (force)")).await?;
        }
        self.run("alter system reset autovacuum").await?;
        self.run("select pg_reload_conf()").await
    }
}

/// What so many databases cost; and, if asked for, what becomes of messages in trouble.
pub(super) async fn measure(url: &str, count: usize, trouble: bool) -> anyhow::Result<Vec<Case>> {
    let mut tenants = Tenants::new(url, count).await?;
    let home = PgStore::connect(url, StoreConfig::default()).await?;
    home.migrate().await?;
    let doorbell = tenants.options.get_database().unwrap_or("postgres").to_owned();
    let task = Task::Postgres {
        list: tenants.list(),
        home: url.to_owned(),
        name: format!("bench {count}"),
        doorbell: Some(doorbell.clone()),
        connections: CONNECTIONS,
    };
    let mut crowd = Crowd::default();
    crowd.start(&task)?;
    crowd.start(&task)?;
    let served = crowd.until_serving(count).await.context("all are served")?;
    let mut seen = Seen::new(format!("PostgreSQL, {count} databases"));
    seen.took("two processes serve all of them after", served);
    idle(&mut tenants, &crowd, count, &mut seen).await?;
    if trouble {
        in_trouble(&mut tenants, &mut crowd, &doorbell, &mut seen).await?;
    }
    drop(crowd);
    home.close().await;
    tenants.drop().await?;
    Ok(seen.cases)
}

async fn idle(
    tenants: &mut Tenants,
    crowd: &Crowd,
    count: usize,
    seen: &mut Seen,
) -> anyhow::Result<()> {
    tokio::time::sleep(COME_TO_REST).await;
    let (before, _) = tenants.figures().await?;
    let (began, busy) = (Instant::now(), crowd.processor_time());
    let mut connections = Vec::new();
    while began.elapsed() < LOOK_FOR {
        connections.push(tenants.figures().await?.1);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (after, _) = tenants.figures().await?;
    let took = began.elapsed().as_secs_f64();
    let queries = (after - before) as f64 / took;
    seen.say("idle, queries", Unit::QueriesPerSecond, queries);
    let each = queries / count as f64;
    seen.within("idle, queries of each store", Unit::QueriesPerSecond, each, 0.5);
    let most = connections.iter().copied().max().unwrap_or(0) as f64;
    // A listener and the home beside the budget.
    let budget = 2 * (CONNECTIONS + 3);
    seen.within("idle, connections of both at most", Unit::Connections, most, budget as f64);
    let busy = (crowd.processor_time() - busy) / took * 100.0;
    seen.say("idle, processor of both", Unit::Percent, busy);
    seen.say("memory of both", Unit::Mebibytes, crowd.memory() as f64);
    Ok(())
}

async fn in_trouble(
    tenants: &mut Tenants,
    crowd: &mut Crowd,
    doorbell: &str,
    seen: &mut Seen,
) -> anyhow::Result<()> {
    let (silent, ringing) = (PgServers::new(5)?, PgServers::new(5)?.doorbell(doorbell));
    let names = tenants.names.clone();
    let some: Vec<_> = names.iter().step_by(10).cloned().collect();
    let ids = tenants.publish(&ringing, &some).await?;
    let took = crowd.until_delivered(&ids).await.context("with a doorbell")?;
    let what =
        format!("{} messages, one each, with a doorbell: delivered after the last", ids.len());
    seen.took(&what, took);
    let ids = tenants.publish(&silent, &some).await?;
    let took = crowd.until_delivered(&ids).await.context("by polling")?;
    seen.took(&format!("{} messages without a doorbell", ids.len()), took);

    crowd.kill_first()?;
    let ids = tenants.publish(&ringing, &names).await?;
    let took = crowd.until_delivered(&ids).await.context("after a kill")?;
    let what = format!("one process killed, then {} messages, one each: all delivered", ids.len());
    seen.took(&what, took);

    beside_a_backlog(tenants, crowd, &ringing, seen).await?;

    // Those that go have nothing left; what is in those that come was there before them.
    let gone = tenants.names.drain(..CHANGED.min(names.len())).collect::<Vec<_>>();
    tenants.write_list()?;
    let next = names.len();
    tenants.add(CHANGED, next).await?;
    let new: Vec<_> = tenants.names.iter().rev().take(CHANGED).cloned().collect();
    let mut ids = tenants.publish(&silent, &new).await?;
    let others = tenants.names.iter().take(100).cloned().collect::<Vec<_>>();
    ids.extend(tenants.publish(&silent, &others).await?);
    for name in &gone {
        tenants.run(&format!("drop database {name} with (force)")).await?;
    }
    let took = crowd.until_delivered(&ids).await.context("after a change")?;
    let (gone, messages) = (gone.len(), ids.len());
    let what = format!("{gone} dropped and {CHANGED} added, {messages} messages: delivered");
    seen.took(&what, took);
    let served = crowd.until_serving(tenants.names.len()).await.context("served again")?;
    seen.took("and all are served after", served);
    Ok(())
}

/// One tenant has a large backlog, another one a single message.
async fn beside_a_backlog(
    tenants: &Tenants,
    crowd: &Crowd,
    servers: &PgServers,
    seen: &mut Seen,
) -> anyhow::Result<()> {
    let big = servers.connect(&tenants.url(&tenants.names[0]), StoreConfig::default()).await?;
    let (big, before) = (Arc::new(big), crowd.delivered());
    let outbox = Outbox::new(Arc::clone(&big));
    outbox.publish_all((0..BACKLOG).map(|_| Message::builder("big"))).await?;
    crowd.until_more_than(before).await.context("the backlog begins")?;
    let last = tenants.names[tenants.names.len() - 1..].to_vec();
    let (began, at) = (Instant::now(), crowd.delivered());
    let small = tenants.publish(servers, &last).await?;
    crowd.until_delivered(&small).await.context("beside a backlog")?;
    let (took, meanwhile) = (began.elapsed(), crowd.delivered() - at);
    crowd.until_more_than(before + BACKLOG).await.context("all of the backlog")?;
    big.close().await;
    let backlog = digits(BACKLOG as f64);
    let what = format!("one message beside {backlog} of another database, with its publishing");
    seen.took(&what, took);
    seen.say("and so many of the others came before it", Unit::Messages, meanwhile as f64);
    seen.took("and all of the others are delivered after", began.elapsed());
    Ok(())
}
