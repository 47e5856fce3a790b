//! C4: how many deliveries run at the same time.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::DispatcherConfig;
use postroom_stores::{PgStore, StoreConfig};

use super::{Points, panel};
use crate::dispatch::{self, Counting};
use crate::fill;
use crate::plan::Plan;
use crate::postgres::{fresh, session};
use crate::progress::say;
use crate::report::numbers::digits;
use crate::report::{Figure, Unit};

const WORKERS: [usize; 5] = [1, 2, 4, 8, 16];
const WAIT: Duration = Duration::from_millis(1);
/// What a worker that waits gets done in a few seconds.
const WAITING: usize = 2_000;

pub(super) async fn measure(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let (mut nothing, mut waiting) = (Points::default(), Points::default());
    for workers in WORKERS {
        say("C4", &format!("{workers} workers"));
        let all = plan.of(plan.messages / 4);
        nothing.add(workers as u64, drain(url, all, workers, None).await?);
        let few = plan.of((WAITING * workers).min(plan.messages / 4));
        waiting.add(workers as u64, drain(url, few, workers, Some(WAIT)).await?);
    }
    let shown = digits((plan.messages / 4) as f64);
    let (x, unit) = ("workers", Unit::MessagesPerSecond);
    let nothing = vec![nothing.ours("handler does nothing")];
    let waiting = vec![waiting.ours("handler waits for 1 ms")];
    Ok(Figure::new("C4", "PostgreSQL: the number of workers")
        .note(format!("{shown} messages of {} B, less where handlers wait", plan.payload))
        .note(dispatch::settings(plan))
        .panel(panel("a handler that does nothing", x, unit, nothing))
        .panel(panel("a handler that waits", x, unit, waiting)))
}

async fn drain(
    url: &str,
    plan: Plan,
    workers: usize,
    waits: Option<Duration>,
) -> anyhow::Result<f64> {
    let pool = session(url).await?;
    let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    fresh(&pool, &store).await?;
    fill::fill(Arc::clone(&store), plan).await?;
    let sink = Counting { waits, ..Counting::default() };
    let config = DispatcherConfig { workers, ..dispatch::config(plan) };
    let per_second = dispatch::drain(Arc::clone(&store) as _, sink, plan.messages, config).await?;
    store.close().await;
    Ok(per_second)
}
