//! PostgreSQL with fsync on.

use anyhow::Context as _;
use postroom_core::store::AdminStore;
use postroom_stores::PgStore;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Executor, PgConnection, PgPool};

// As the store's own engine sessions, so that the plans are the same.
const SESSION: &str = "set enable_seqscan = off; set enable_bitmapscan = off; set jit = off; \
    set plan_cache_mode = force_generic_plan; set synchronous_commit = on";

/// One connection for the control.
pub(crate) async fn session(url: &str) -> anyhow::Result<PgPool> {
    let options = PgPoolOptions::new()
        .max_connections(1)
        .after_connect(|conn, _| Box::pin(async move { conn.execute(SESSION).await.map(drop) }));
    Ok(options.connect(url).await?)
}

/// An empty schema, so that every round begins alike.
pub(crate) async fn fresh(pool: &PgPool, store: &PgStore) -> anyhow::Result<()> {
    pool.execute("set client_min_messages = warning").await?;
    pool.execute("drop schema if exists postroom cascade").await?;
    store.migrate().await?;
    pool.execute("checkpoint").await?;
    Ok(())
}

/// A statement with names in it, which can not be bound.
pub(crate) async fn run(conn: &mut PgConnection, sql: &str) -> anyhow::Result<()> {
    conn.execute(AssertSqlSafe(sql.to_owned())).await.with_context(|| sql.to_owned())?;
    Ok(())
}
