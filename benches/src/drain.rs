//! P1: a backlog in PostgreSQL is drained, by the whole dispatcher, by one claimer, and by the
//! bare statements of that claimer.

use std::sync::Arc;

use postroom_stores::{PgStore, StoreConfig};
use sqlx::PgPool;

use crate::contest::{self, Contestant};
use crate::dispatch::{self, Counting};
use crate::plan::Plan;
use crate::postgres::{fresh, session};
use crate::report::numbers::{digits, rate};
use crate::report::{Case, Figure, Series, Unit};
use crate::{control, fill};

const DISPATCHER: &str = "Postroom, dispatcher";
const CLAIMER: &str = "Postroom, one claimer";

pub(crate) async fn measure(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let batch = digits(f64::from(plan.batch));
    Ok(Figure::new("P1", "PostgreSQL: drain a backlog")
        .note(plan.sizes())
        .note(dispatch::settings(plan))
        .note(format!("one claimer and control: claim {batch}, settle them, again"))
        .note("control: the claimer's statements through the bare driver, on one connection")
        .case(case(url, plan, true).await?)
        .case(case(url, plan, false).await?))
}

async fn case(url: &str, plan: Plan, keep_done: bool) -> anyhow::Result<Case> {
    let pool = session(url).await?;
    let pool = &pool;
    let contestants = vec![
        Contestant::new(Series::ours().which("dispatcher"), move || async move {
            let store = filled(url, pool, plan, keep_done).await?;
            let sink = Counting::default();
            let config = dispatch::config(plan);
            let per_second =
                dispatch::drain(Arc::clone(&store) as _, sink, plan.messages, config).await?;
            store.close().await;
            Ok(per_second)
        }),
        Contestant::new(Series::ours().which("one claimer"), move || async move {
            let store = filled(url, pool, plan, keep_done).await?;
            let took = fill::drain(Arc::clone(&store) as _, plan).await?;
            store.close().await;
            Ok(rate(plan.messages, took))
        }),
        Contestant::new(Series::control(), move || async move {
            filled(url, pool, plan, keep_done).await?.close().await;
            Ok(rate(plan.messages, control::postgres(pool, plan, keep_done).await?))
        }),
    ];
    let what = if keep_done { "drain, history kept" } else { "drain, retention 0" };
    let series = contest::hold("P1", what, plan.rounds, contestants).await?;
    let case = Case::new(what, Unit::MessagesPerSecond, series);
    // What keeps nothing is held against the peers, which keep nothing either.
    if !keep_done {
        return Ok(case);
    }
    Ok(case.bar_over(DISPATCHER, Series::CONTROL, 0.8).bar_over(CLAIMER, Series::CONTROL, 0.8))
}

async fn filled(
    url: &str,
    pool: &PgPool,
    plan: Plan,
    keep_done: bool,
) -> anyhow::Result<Arc<PgStore>> {
    let config = StoreConfig { keep_done, ..StoreConfig::default() };
    let store = Arc::new(PgStore::connect(url, config).await?);
    fresh(pool, &store).await?;
    fill::fill(Arc::clone(&store), plan).await?;
    Ok(store)
}
