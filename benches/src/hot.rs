//! P2, and a part of P8: a business row and a message in one transaction, delivered and settled,
//! next to the same transactions with nobody who delivers.

use std::sync::Arc;
use std::time::Instant;

use postroom_core::store::{Store, TransactionalStore};
use postroom_core::{Message, Outbox};
use postroom_stores::{PgStore, SqliteStore, StoreConfig};
use sqlx::{Executor, PgConnection, PgPool, SqliteConnection};

use crate::contest::{self, Contestant};
use crate::dispatch::{self, Counting, GRACE};
use crate::fill::bytes_of;
use crate::plan::Plan;
use crate::postgres::fresh;
use crate::report::numbers::{digits, rate};
use crate::report::{Case, Figure, Series, Unit};

pub(crate) const PRODUCERS: usize = 16;

/// A store in whose transactions an application writes rows of its own.
pub(crate) trait Business: TransactionalStore {
    /// Writes one row.
    fn write(conn: &mut Self::Conn, n: i64)
    -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

impl Business for PgStore {
    async fn write(conn: &mut PgConnection, n: i64) -> Result<(), sqlx::Error> {
        let insert = sqlx::query("insert into bench_business (n) values ($1)");
        insert.bind(n).execute(conn).await.map(drop)
    }
}

impl Business for SqliteStore {
    async fn write(conn: &mut SqliteConnection, n: i64) -> Result<(), sqlx::Error> {
        let insert = sqlx::query("insert into bench_business (n) values (?)");
        insert.bind(n).execute(conn).await.map(drop)
    }
}

pub(crate) async fn measure(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    let plan = fewer(plan);
    let (pool, what) = (&pool, "hot path, 16 producers");
    let contestant = |series: Series, deliver: bool| {
        Contestant::new([series], move || async move {
            let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
            fresh(pool, &store).await?;
            let sql = "drop table if exists bench_business; \
                create table bench_business (id bigint generated always as identity, n bigint)";
            pool.execute(sqlx::raw_sql(sql)).await?;
            let per_second = run(&store, plan, deliver).await?;
            store.close().await;
            Ok(per_second)
        })
    };
    let contestants = vec![contestant(Series::ours(), true), contestant(Series::control(), false)];
    let series = contest::hold("P2", what, plan.rounds, contestants).await?;
    let case = Case::new(what, Unit::MessagesPerSecond, series);
    Ok(Figure::new("P2", "PostgreSQL: the hot path, end to end")
        .note(plan.sizes())
        .note(dispatch::settings(plan))
        .note("each transaction: begin, a business row, a message, commit")
        .note("control: the same transactions through the same handle, nobody delivers")
        .case(case.bar_over(Series::OURS, Series::CONTROL, 0.85)))
}

/// Every message is a commit of its own, so a part of a backlog's messages takes as long.
pub(crate) fn fewer(plan: Plan) -> Plan {
    plan.of((plan.messages / 5 / PRODUCERS).max(1) * PRODUCERS)
}

/// Transactions per second, until all of their messages are settled if they are delivered.
pub(crate) async fn run<S: Business>(
    store: &Arc<S>,
    plan: Plan,
    deliver: bool,
) -> anyhow::Result<f64> {
    let sink = Counting::default();
    let began = Instant::now();
    let running =
        if deliver { Some(sink.start(Arc::clone(store) as Arc<dyn Store>, plan)?) } else { None };
    produce(store, plan).await?;
    if let Some(running) = running {
        sink.until(plan.messages).await?;
        running.shutdown(GRACE).await;
        expect_hot(store, plan.messages)?;
    }
    Ok(rate(plan.messages, began.elapsed()))
}

/// What was claimed instead would be another figure.
pub(crate) fn expect_hot<S: Store>(store: &Arc<S>, messages: usize) -> anyhow::Result<()> {
    let hot = store.local().snapshot().counts.hot as f64 / messages as f64;
    anyhow::ensure!(hot > 0.9, "only {} % took the hot path", digits(hot * 100.0));
    Ok(())
}

async fn produce<S: Business>(store: &Arc<S>, plan: Plan) -> anyhow::Result<()> {
    let producers = (0..PRODUCERS).map(|_| {
        let outbox = Outbox::new(Arc::clone(store));
        let payload = bytes_of(plan.payload);
        tokio::spawn(async move {
            for n in 0..plan.messages / PRODUCERS {
                let mut tx = outbox.begin().await?;
                S::write(tx.conn(), i64::try_from(n)?).await?;
                tx.publish(Message::builder("order.placed").payload(payload.clone()))?;
                tx.commit().await?;
            }
            anyhow::Ok(())
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await??;
    }
    Ok(())
}
