//! PostgreSQL with fsync on.

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_stores::{PgStore, StoreConfig};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};

use crate::report::{Figure, Rates, ratio};
use crate::{Plan, control, fill};

// As the store's own engine sessions, so that the plans are the same.
const SESSION: &str = "set enable_seqscan = off; set enable_bitmapscan = off; set jit = off; \
    set plan_cache_mode = force_generic_plan; set synchronous_commit = on";

pub(crate) async fn drain(url: &str, plan: Plan, keep_done: bool) -> anyhow::Result<Figure> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .after_connect(|conn, _| Box::pin(async move { conn.execute(SESSION).await.map(drop) }))
        .connect(url)
        .await?;
    let config = StoreConfig { keep_done, ..StoreConfig::default() };
    let store = Arc::new(PgStore::connect(url, config).await?);
    let (mut publish, mut ours, mut bare) = (Rates::default(), Rates::default(), Rates::default());
    for _ in 0..plan.rounds {
        fresh(&pool, &store).await?;
        publish.add(plan.messages, fill::fill(Arc::clone(&store), plan).await?);
        ours.add(plan.messages, fill::drain(Arc::clone(&store) as _, plan).await?);
        fresh(&pool, &store).await?;
        fill::fill(Arc::clone(&store), plan).await?;
        bare.add(plan.messages, control::postgres(&pool, plan, keep_done).await?);
    }
    let (wal_publish, wal_drain) = wal(&pool, &store, plan).await?;
    Ok(Figure {
        id: "P1",
        what: format!(
            "PostgreSQL drain, {}",
            if keep_done { "history kept" } else { "no history" }
        ),
        publish: publish.median(),
        postroom: ours.median(),
        control: bare.median(),
        ratio: ratio(&ours, &bare),
        spread: ours.spread(),
        wal_publish: Some(wal_publish),
        wal_drain: Some(wal_drain),
    })
}

/// Bytes of log per message for a publish and a drain, full-page images switched off.
async fn wal(pool: &PgPool, store: &Arc<PgStore>, plan: Plan) -> anyhow::Result<(u64, u64)> {
    pool.execute("alter system set full_page_writes = off").await?;
    pool.execute("select pg_reload_conf()").await?;
    fresh(pool, store).await?;
    let start = position(pool).await?;
    fill::fill(Arc::clone(store), plan).await?;
    let filled = position(pool).await?;
    fill::drain(Arc::clone(store) as _, plan).await?;
    let drained = position(pool).await?;
    pool.execute("alter system reset full_page_writes").await?;
    pool.execute("select pg_reload_conf()").await?;
    let messages = plan.messages as u64;
    Ok(((filled - start) / messages, (drained - filled) / messages))
}

async fn position(pool: &PgPool) -> anyhow::Result<u64> {
    let sql = "select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
    let bytes: i64 = sqlx::query_scalar(sql).fetch_one(pool).await?;
    Ok(u64::try_from(bytes)?)
}

/// An empty schema, so that every round begins alike.
pub(crate) async fn fresh(pool: &PgPool, store: &PgStore) -> anyhow::Result<()> {
    pool.execute("set client_min_messages = warning").await?;
    pool.execute("drop schema if exists postroom cascade").await?;
    store.migrate().await?;
    pool.execute("checkpoint").await?;
    Ok(())
}
