//! The control: the very same statements, bound and run by hand, rows fetched and not looked at.

use std::time::{Duration, Instant};

use sqlx::sqlite::SqlitePool;
use sqlx::{PgPool, Row};
use uuid::Uuid;

use crate::plan::Plan;

const PG_CLAIM: &str = include_str!("../../crates/postroom-stores/sql/postgres/claim_ready.sql");
const PG_DONE: &str = include_str!("../../crates/postroom-stores/sql/postgres/settle_done.sql");
const PG_GONE: &str = include_str!("../../crates/postroom-stores/sql/postgres/settle_gone.sql");

pub(crate) async fn postgres(pool: &PgPool, plan: Plan, keep: bool) -> anyhow::Result<Duration> {
    let owner = Uuid::new_v4();
    let began = Instant::now();
    let mut drained = 0;
    // Nobody else claims or publishes, so what was passed can be left out altogether.
    let mut passed = 0_i64;
    while drained < plan.messages {
        let token = Uuid::new_v4();
        let rows = sqlx::query(PG_CLAIM)
            .bind(None::<String>)
            .bind(owner)
            .bind(token)
            .bind(30_000_000_i64)
            .bind(i32::try_from(plan.batch)?)
            .bind(passed)
            .bind(Vec::<i64>::new())
            .bind(Vec::<Option<i64>>::new())
            .fetch_all(pool)
            .await?;
        let seqs: Vec<i64> = rows.iter().filter_map(|row| row.try_get("seq").ok()).collect();
        let Some(last) = seqs.last() else { break };
        passed = *last;
        let tokens = vec![token; seqs.len()];
        let settle = sqlx::query(if keep { PG_DONE } else { PG_GONE });
        let settle = settle.bind(None::<String>).bind(owner).bind(seqs).bind(tokens);
        let settled = settle.fetch_one(pool).await?;
        let settled: Option<Vec<i64>> = settled.try_get("seqs")?;
        drained += settled.map_or(0, |settled| settled.len());
    }
    let took = began.elapsed();
    anyhow::ensure!(drained >= plan.messages, "control drained {drained}");
    Ok(took)
}

const LITE_CLAIM: &str = include_str!("../../crates/postroom-stores/sql/sqlite/claim.sql");
const LITE_LEASE: &str = include_str!("../../crates/postroom-stores/sql/sqlite/claim_lease.sql");
const LITE_MESSAGES: &str =
    include_str!("../../crates/postroom-stores/sql/sqlite/claim_messages.sql");
const LITE_SETTLE: &str = include_str!("../../crates/postroom-stores/sql/sqlite/settle.sql");
const LITE_DONE: &str = include_str!("../../crates/postroom-stores/sql/sqlite/settle_done.sql");
const LITE_LEAVE: &str = include_str!("../../crates/postroom-stores/sql/sqlite/unqueue.sql");

pub(crate) async fn sqlite(pool: &SqlitePool, plan: Plan) -> anyhow::Result<Duration> {
    let owner = Uuid::new_v4();
    let began = Instant::now();
    let mut drained = 0;
    loop {
        let token = Uuid::new_v4();
        let now = 4_000_000_000_000_000_i64;
        let mut tx = pool.begin_with("begin immediate").await?;
        let claim = sqlx::query(LITE_CLAIM).bind(now).bind(plan.batch).bind(1);
        let claim = claim.bind(None::<String>);
        let rows = claim.fetch_all(&mut *tx).await?;
        let seqs: Vec<i64> = rows.iter().filter_map(|row| row.try_get("seq").ok()).collect();
        if seqs.is_empty() {
            break;
        }
        let list = serde_json::to_string(&seqs)?;
        let lease = sqlx::query(LITE_LEASE).bind(&list).bind(token).bind(owner).bind(now + 1);
        lease.execute(&mut *tx).await?;
        sqlx::query(LITE_MESSAGES).bind(&list).fetch_all(&mut *tx).await?;
        tx.commit().await?;

        let mut tx = pool.begin_with("begin immediate").await?;
        sqlx::query(LITE_SETTLE).bind(&list).bind(owner).fetch_all(&mut *tx).await?;
        sqlx::query(LITE_DONE).bind(&list).bind(now).bind(owner).execute(&mut *tx).await?;
        let left = sqlx::query(LITE_LEAVE).bind(&list).execute(&mut *tx).await?;
        tx.commit().await?;
        drained += usize::try_from(left.rows_affected())?;
    }
    let took = began.elapsed();
    anyhow::ensure!(drained == plan.messages, "control drained {drained}");
    Ok(took)
}
