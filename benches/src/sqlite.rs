//! P8: SQLite in a file, with the durability that the store gives it (WAL, synchronous = normal).

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_stores::{SqliteStore, StoreConfig};
use sqlx::Executor as _;
use tempfile::TempDir;

use crate::contest::{self, Contestant};
use crate::dispatch::{self, Counting};
use crate::plan::Plan;
use crate::report::numbers::rate;
use crate::report::{Case, Figure, Series, Unit};
use crate::{control, fill, hot};

const DISPATCHER: &str = "Postroom, dispatcher";
const CLAIMER: &str = "Postroom, one claimer";

/// Peers drain in the same rounds.
pub(crate) async fn measure(plan: Plan, peers: Vec<Contestant<'_>>) -> anyhow::Result<Figure> {
    Ok(Figure::new("P8", "SQLite: drain, and the hot path")
        .note(plan.sizes())
        .note(dispatch::settings(plan))
        .note("drain, control: the claimer's statements through the bare driver")
        .note("hot path, control: the same transactions, nobody delivers")
        .case(drain(plan, peers).await?)
        .case(hot_path(plan).await?))
}

async fn drain(plan: Plan, peers: Vec<Contestant<'_>>) -> anyhow::Result<Case> {
    let mut contestants = vec![
        Contestant::new([Series::ours().which("dispatcher")], move || async move {
            let (store, _folder) = filled(plan).await?;
            let config = dispatch::config(plan);
            let sink = Counting::default();
            let per_second =
                dispatch::drain(Arc::clone(&store) as _, sink, plan.messages, config).await?;
            store.close().await;
            Ok(per_second)
        }),
        Contestant::new([Series::ours().which("one claimer")], move || async move {
            let (store, _folder) = filled(plan).await?;
            let took = fill::drain(Arc::clone(&store) as _, plan).await?;
            store.close().await;
            Ok(rate(plan.messages, took))
        }),
        Contestant::new([Series::control()], move || async move {
            let (store, _folder) = filled(plan).await?;
            let took = control::sqlite(store.writer(), plan).await?;
            store.close().await;
            Ok(rate(plan.messages, took))
        }),
    ];
    contestants.extend(peers);
    let what = "drain, history kept";
    let series = contest::hold("P8", what, plan.rounds, contestants).await?;
    let case = Case::new(what, Unit::MessagesPerSecond, series);
    Ok(case
        .bar_over(DISPATCHER, Series::CONTROL, 0.6)
        .bar_over(CLAIMER, Series::CONTROL, 0.6)
        .bar_over_best_peer(DISPATCHER, 1.0))
}

async fn hot_path(plan: Plan) -> anyhow::Result<Case> {
    let plan = hot::fewer(plan);
    let contestant = |series: Series, deliver: bool| {
        Contestant::new([series], move || async move {
            let (store, _folder) = fresh().await?;
            let sql = "create table bench_business (id integer primary key, n bigint)";
            store.writer().execute(sql).await?;
            let per_second = hot::run(&store, plan, deliver).await?;
            store.close().await;
            Ok(per_second)
        })
    };
    let contestants = vec![contestant(Series::ours(), true), contestant(Series::control(), false)];
    let what = "hot path, 16 producers";
    let series = contest::hold("P8", what, plan.rounds, contestants).await?;
    let case = Case::new(what, Unit::MessagesPerSecond, series);
    Ok(case.bar_over(Series::OURS, Series::CONTROL, 0.6))
}

async fn filled(plan: Plan) -> anyhow::Result<(Arc<SqliteStore>, TempDir)> {
    let (store, folder) = fresh().await?;
    fill::fill(Arc::clone(&store), plan).await?;
    Ok((store, folder))
}

/// An empty file, so that every round begins alike. It goes with its folder.
async fn fresh() -> anyhow::Result<(Arc<SqliteStore>, TempDir)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bench.db");
    let path = path.to_str().ok_or_else(|| anyhow::anyhow!("a temp folder with a plain name"))?;
    let store = SqliteStore::open(path, StoreConfig::default()).await?;
    store.migrate().await?;
    Ok((Arc::new(store), folder))
}
