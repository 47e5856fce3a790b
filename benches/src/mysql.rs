//! P9: MariaDB (or MySQL) that waits for the disk. The control here is what one would write by hand
//! on the same tables, statement by statement: the store calls procedures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use postroom_core::store::AdminStore;
use postroom_stores::{MySqlStore, StoreConfig};
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::{Executor, MySql, QueryBuilder, Row};
use uuid::Uuid;

use crate::contest::{self, Contestant};
use crate::dispatch::{self, Counting};
use crate::fill;
use crate::plan::Plan;
use crate::report::numbers::rate;
use crate::report::{Case, Figure, Series, Unit};

const DISPATCHER: &str = "Postroom, dispatcher";
const CLAIMER: &str = "Postroom, one claimer";

pub(crate) async fn measure(server: &str, plan: Plan) -> anyhow::Result<Figure> {
    let contestants = vec![
        Contestant::new([Series::ours().which("dispatcher")], move || async move {
            let (pool, store) = filled(server, plan).await?;
            let (sink, config) = (Counting::default(), dispatch::config(plan));
            let per_second =
                dispatch::drain(Arc::clone(&store) as _, sink, plan.messages, config).await?;
            close(&pool, &store).await;
            Ok(per_second)
        }),
        Contestant::new([Series::ours().which("one claimer")], move || async move {
            let (pool, store) = filled(server, plan).await?;
            let took = fill::drain(Arc::clone(&store) as _, plan).await?;
            close(&pool, &store).await;
            Ok(rate(plan.messages, took))
        }),
        Contestant::new([Series::control()], move || async move {
            let (pool, store) = filled(server, plan).await?;
            let took = by_hand(&pool, plan).await?;
            close(&pool, &store).await;
            Ok(rate(plan.messages, took))
        }),
    ];
    let what = "drain, history kept";
    let series = contest::hold("P9", what, plan.rounds, contestants).await?;
    let case = Case::new(what, Unit::MessagesPerSecond, series)
        .bar_over(DISPATCHER, Series::CONTROL, 0.7)
        .bar_over(CLAIMER, Series::CONTROL, 0.7);
    Ok(Figure::new("P9", "MariaDB: drain a backlog")
        .note(plan.sizes())
        .note(dispatch::settings(plan))
        .note("control: SQL by hand on the same tables, on one connection")
        .case(case))
}

async fn filled(server: &str, plan: Plan) -> anyhow::Result<(MySqlPool, Arc<MySqlStore>)> {
    let (pool, store) = fresh(server).await?;
    fill::fill(Arc::clone(&store), plan).await?;
    Ok((pool, store))
}

async fn close(pool: &MySqlPool, store: &MySqlStore) {
    store.close().await;
    pool.close().await;
}

/// An empty database, so that every round begins alike.
async fn fresh(server: &str) -> anyhow::Result<(MySqlPool, Arc<MySqlStore>)> {
    let setup = MySqlPool::connect(server).await?;
    let sql = "drop database if exists postroom_bench; create database postroom_bench";
    setup.execute(sqlx::raw_sql(sql)).await?;
    setup.close().await;
    let url = format!("{}/postroom_bench", server.trim_end_matches('/'));
    let store = MySqlStore::connect(&url, StoreConfig::default()).await?;
    store.migrate().await?;
    let session = "set session transaction isolation level read committed";
    let pool = MySqlPoolOptions::new()
        .max_connections(1)
        .after_connect(move |conn, _| {
            Box::pin(async move { conn.execute(session).await.map(drop) })
        })
        .connect(&url)
        .await?;
    Ok((pool, Arc::new(store)))
}

const CLAIM: &str = "select seq from postroom_outbox_queue
    where band = 0 and seq > ? and leased = 0 and lost = 0
    order by band, seq limit ? for update skip locked";

async fn by_hand(pool: &MySqlPool, plan: Plan) -> anyhow::Result<Duration> {
    let owner = Uuid::new_v4();
    let began = Instant::now();
    let mut drained = 0;
    // Nobody else claims or publishes, so what was passed can be left out altogether.
    let mut passed = 0_i64;
    loop {
        let token = Uuid::new_v4();
        let mut tx = pool.begin().await?;
        let rows = sqlx::query(CLAIM).bind(passed).bind(plan.batch).fetch_all(&mut *tx).await?;
        let seqs = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        let Some(last) = seqs.last() else { break };
        passed = *last;
        let mut lease = QueryBuilder::<MySql>::new(
            "update postroom_outbox_queue
            set leased = 1, locked_until = 4000000000000000, owner = ",
        );
        lease.push_bind(owner).push(", token = ").push_bind(token);
        lease.push(" where band = 0 and seq in ");
        among(&mut lease, &seqs).build().execute(&mut *tx).await?;
        let mut messages =
            QueryBuilder::<MySql>::new("select * from postroom_outbox_message where seq in ");
        among(&mut messages, &seqs).build().fetch_all(&mut *tx).await?;
        tx.commit().await?;
        drained += settle_by_hand(pool, owner, token, &seqs).await.context("settle")?;
    }
    let took = began.elapsed();
    anyhow::ensure!(drained == plan.messages, "control drained {drained}");
    Ok(took)
}

async fn settle_by_hand(
    pool: &MySqlPool,
    owner: Uuid,
    token: Uuid,
    seqs: &[i64],
) -> anyhow::Result<usize> {
    let mut tx = pool.begin().await?;
    let mut held =
        QueryBuilder::<MySql>::new("select seq from postroom_outbox_queue where owner = ");
    held.push_bind(owner).push(" and token = ").push_bind(token);
    let held = among(held.push(" and band = 0 and seq in "), seqs).push(" for update");
    let held = held.build().fetch_all(&mut *tx).await?;
    let mut settle = QueryBuilder::<MySql>::new(
        "insert into postroom_outbox_settled
            (seq, settled_at, id, settled_by, attempts, lost, state)
        select seq, 1, id, owner, attempts, lost, 1 from postroom_outbox_queue
        where band = 0 and seq in ",
    );
    among(&mut settle, seqs).build().execute(&mut *tx).await?;
    let mut leave =
        QueryBuilder::<MySql>::new("delete from postroom_outbox_queue where band = 0 and seq in ");
    among(&mut leave, seqs).build().execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(held.len())
}

fn among<'a>(query: &'a mut QueryBuilder<MySql>, seqs: &[i64]) -> &'a mut QueryBuilder<MySql> {
    query.push("(");
    let mut list = query.separated(", ");
    for seq in seqs {
        list.push_bind(*seq);
    }
    query.push(")")
}
