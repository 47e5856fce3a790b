//! P1: a backlog in PostgreSQL is drained, by the whole dispatcher, by one claimer, and by the
//! bare statements of that claimer.

use std::sync::Arc;

use postroom_core::store::Store;
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

/// Peers are measured in the same rounds. They keep no history.
pub(crate) async fn measure<'a>(
    url: &'a str,
    plan: Plan,
    peers: Vec<Contestant<'a>>,
) -> anyhow::Result<Figure> {
    let pool = session(url).await?;
    let mut contestants = Vec::from(ours(url, &pool, plan, true));
    let each = contestants.len();
    contestants.extend(ours(url, &pool, plan, false));
    contestants.extend(peers);
    let series = contest::hold("P1", "drain", plan.rounds, contestants).await?;
    let (ours, peers) = series.split_at(2 * each);
    let case = |what: &str, ours: &[Series]| {
        Case::new(what, Unit::MessagesPerSecond, [ours, peers].concat())
    };
    let kept = case("drain, history kept", &ours[..each])
        .bar_over(DISPATCHER, Series::CONTROL, 0.8)
        .bar_over(CLAIMER, Series::CONTROL, 0.8)
        .bar_over_best_peer(DISPATCHER, 1.5);
    let gone = case("drain, retention 0", &ours[each..]).bar_over_best_peer(DISPATCHER, 2.0);
    let batch = digits(f64::from(plan.batch));
    Ok(Figure::new("P1", "PostgreSQL: drain a backlog")
        .note(plan.sizes())
        .note(dispatch::settings(plan))
        .note(format!("one claimer and control: claim {batch}, settle them, again"))
        .note("control: the claimer's statements through the bare driver, on one connection")
        .case(kept)
        .case(gone))
}

/// Who drains.
#[derive(Clone, Copy, Debug)]
enum Who {
    Dispatcher,
    Claimer,
    Control,
}

fn ours<'a>(url: &'a str, pool: &PgPool, plan: Plan, keep_done: bool) -> [Contestant<'a>; 3] {
    let all = [
        (Who::Dispatcher, Series::ours().which("dispatcher")),
        (Who::Claimer, Series::ours().which("one claimer")),
        (Who::Control, Series::control()),
    ];
    all.map(|(who, series)| {
        let pool = pool.clone();
        Contestant::new([series], move || drain(url, pool.clone(), plan, keep_done, who))
    })
}

/// Messages per second of a backlog that is there before.
async fn drain(
    url: &str,
    pool: PgPool,
    plan: Plan,
    keep_done: bool,
    who: Who,
) -> anyhow::Result<f64> {
    let config = StoreConfig { keep_done, ..StoreConfig::default() };
    let store = Arc::new(PgStore::connect(url, config).await?);
    fresh(&pool, &store).await?;
    fill::fill(Arc::clone(&store), plan).await?;
    let queue = Arc::clone(&store) as Arc<dyn Store>;
    let per_second = match who {
        Who::Dispatcher => {
            let (sink, config) = (Counting::default(), dispatch::config(plan));
            dispatch::drain(queue, sink, plan.messages, config).await?
        }
        Who::Claimer => rate(plan.messages, fill::drain(queue, plan).await?),
        Who::Control => rate(plan.messages, control::postgres(&pool, plan, keep_done).await?),
    };
    store.close().await;
    Ok(per_second)
}
