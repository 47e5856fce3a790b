//! MariaDB (or MySQL) that waits for the disk. The control here is what one would write by hand on
//! the same tables, statement by statement: the store calls procedures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use postroom_core::store::AdminStore;
use postroom_stores::{MySqlStore, StoreConfig};
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::{Executor, MySql, QueryBuilder, Row};
use uuid::Uuid;

use crate::report::{Figure, Rates, ratio};
use crate::{Plan, fill};

pub(crate) async fn drain(server: &str, plan: Plan) -> anyhow::Result<Figure> {
    let (mut publish, mut ours, mut bare) = (Rates::default(), Rates::default(), Rates::default());
    for _ in 0..plan.rounds {
        let (pool, store) = fresh(server).await?;
        publish.add(plan.messages, fill::fill(Arc::clone(&store), plan).await?);
        ours.add(plan.messages, fill::drain(Arc::clone(&store) as _, plan).await?);
        store.close().await;
        pool.close().await;
        let (pool, store) = fresh(server).await?;
        fill::fill(Arc::clone(&store), plan).await?;
        bare.add(plan.messages, by_hand(&pool, plan).await?);
        store.close().await;
        pool.close().await;
    }
    Ok(Figure {
        id: "P9",
        what: "MariaDB drain, history kept; control: SQL by hand".to_owned(),
        publish: publish.median(),
        postroom: ours.median(),
        control: bare.median(),
        ratio: ratio(&ours, &bare),
        spread: ours.spread(),
        wal_publish: None,
        wal_drain: None,
    })
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
            "update postroom_outbox_queue set leased = 1, locked_until = 4000000000000000, owner = ",
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
