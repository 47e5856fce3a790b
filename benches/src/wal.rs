//! P4: bytes of write-ahead log per message, from publish to settled, with history and without
//! headers. Full-page images are switched off: how many there are depends on checkpoints.

use std::sync::Arc;

use postroom_core::{Message, Outbox};
use postroom_stores::{PgStore, StoreConfig};
use sqlx::{Executor as _, PgPool};

use crate::contest::{self, Contestant};
use crate::dispatch::{self, Counting, GRACE};
use crate::fill::{self, bytes_of};
use crate::hot::{PRODUCERS, expect_hot};
use crate::plan::Plan;
use crate::postgres::fresh;
use crate::report::{Case, Figure, Series, Unit};

pub(crate) async fn measure(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    images(&pool, false).await?;
    let measured = both(url, &pool, plan).await;
    images(&pool, true).await?;
    let series = measured?;
    let case = |what: &str, series: &Series, bar: f64| {
        Case::new(what, Unit::Bytes, vec![series.clone()]).bar(Series::OURS, bar)
    };
    Ok(Figure::new("P4", "PostgreSQL: bytes of log per message, publish to settled")
        .note(plan.sizes())
        .note(dispatch::settings(plan))
        .note("history kept, no headers, full-page images excluded")
        .case(case("hot, 16 producers, a transaction per message", &series[0], 1_000.0))
        .case(case("cold, a backlog that is then drained", &series[1], 1_250.0)))
}

async fn both(url: &str, pool: &PgPool, plan: Plan) -> anyhow::Result<Vec<Series>> {
    let contestants = vec![
        Contestant::new([Series::ours()], move || hot(url, pool, plan)),
        Contestant::new([Series::ours()], move || cold(url, pool, plan)),
    ];
    contest::hold("P4", "bytes of log", plan.rounds, contestants).await
}

async fn hot(url: &str, pool: &PgPool, plan: Plan) -> anyhow::Result<f64> {
    let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    fresh(pool, &store).await?;
    let messages = (plan.messages / PRODUCERS).max(1) * PRODUCERS;
    let sink = Counting::default();
    let start = position(pool).await?;
    let running = sink.start(Arc::clone(&store) as _, plan)?;
    let producers = (0..PRODUCERS).map(|_| {
        let outbox = Outbox::new(Arc::clone(&store));
        let payload = bytes_of(plan.payload);
        tokio::spawn(async move {
            for _ in 0..messages / PRODUCERS {
                let message = Message::builder("order.placed").payload(payload.clone());
                outbox.publish(message).await?;
            }
            anyhow::Ok(())
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await??;
    }
    sink.until(messages).await?;
    running.shutdown(GRACE).await;
    let end = position(pool).await?;
    expect_hot(&store, messages)?;
    store.close().await;
    Ok((end - start) / messages as f64)
}

async fn cold(url: &str, pool: &PgPool, plan: Plan) -> anyhow::Result<f64> {
    let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    fresh(pool, &store).await?;
    let start = position(pool).await?;
    fill::fill(Arc::clone(&store), plan).await?;
    let (sink, config) = (Counting::default(), dispatch::config(plan));
    dispatch::drain(Arc::clone(&store) as _, sink, plan.messages, config).await?;
    let end = position(pool).await?;
    store.close().await;
    Ok((end - start) / plan.messages as f64)
}

/// Switches full-page images for the whole server.
async fn images(pool: &PgPool, on: bool) -> anyhow::Result<()> {
    let sql = if on {
        "alter system reset full_page_writes"
    } else {
        "alter system set full_page_writes = off"
    };
    pool.execute(sql).await?;
    pool.execute("select pg_reload_conf()").await?;
    Ok(())
}

async fn position(pool: &PgPool) -> anyhow::Result<f64> {
    let sql = "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8";
    Ok(sqlx::query_scalar(sql).fetch_one(pool).await?)
}
