//! What becomes of the figures when something grows: one run per point.

mod backlog;
mod keys;
mod payload;
mod settled;
mod workers;

use std::sync::Arc;

use postroom_stores::{PgStore, StoreConfig};
use sqlx::PgPool;

use crate::arguments::Arguments;
use crate::dispatch::{self, Counting};
use crate::plan::Plan;
use crate::postgres::{fresh, session};
use crate::report::numbers::rate;
use crate::report::{Figure, Line, Panel, Role, Unit};
use crate::{bulk, claims, control};

pub(crate) async fn measure(
    id: &str,
    url: &str,
    plan: Plan,
    arguments: &Arguments,
) -> anyhow::Result<Figure> {
    match id {
        "C1" => backlog::measure(url, plan, arguments.max_backlog).await,
        "C2" => settled::measure(url, plan, arguments.max_settled).await,
        "C3" => payload::measure(url, plan).await,
        "C4" => workers::measure(url, plan).await,
        _ => keys::measure(url, plan).await,
    }
}

/// The numbers along one axis, as they come.
#[derive(Default)]
struct Points(Vec<(f64, f64)>);

impl Points {
    fn add(&mut self, x: u64, y: f64) {
        self.0.push((x as f64, y));
    }

    fn ours(self, name: &str) -> Line {
        Line { name: name.to_owned(), role: Role::Ours, points: self.0 }
    }

    fn control(self, name: &str) -> Line {
        Line { name: name.to_owned(), role: Role::Control, points: self.0 }
    }
}

fn panel(title: &str, x: &str, unit: Unit, lines: Vec<Line>) -> Panel {
    Panel { title: title.to_owned(), x: x.to_owned(), logarithmic: true, unit, lines }
}

/// PostgreSQL with an empty schema, and what measures a backlog that is kept at one length.
struct Bed<'a> {
    id: &'static str,
    url: &'a str,
    plan: Plan,
    pool: PgPool,
}

impl<'a> Bed<'a> {
    async fn new(id: &'static str, url: &'a str, plan: Plan) -> anyhow::Result<Self> {
        let pool = session(url).await?;
        let store = PgStore::connect(url, StoreConfig::default()).await?;
        fresh(&pool, &store).await?;
        store.close().await;
        Ok(Self { id, url, plan, pool })
    }

    async fn top_up(&self, backlog: u64) -> anyhow::Result<()> {
        let mut conn = self.pool.acquire().await?;
        bulk::top_up(&mut conn, self.id, backlog, self.plan.payload).await
    }

    /// Messages per second of the dispatcher and of the control, and seconds of a claim and of a
    /// claim with its settle. Each begins with the same backlog; of a long one a part is drained.
    async fn measure(&self, backlog: u64) -> anyhow::Result<[f64; 4]> {
        let part = usize::try_from(backlog)?.min(self.plan.messages / 2);
        self.top_up(backlog).await?;
        let [claim, both] = self.claims().await?;
        self.top_up(backlog).await?;
        let store = Arc::new(PgStore::connect(self.url, StoreConfig::default()).await?);
        let (sink, config) = (Counting::default(), dispatch::config(self.plan));
        let ours = dispatch::drain(Arc::clone(&store) as _, sink, part, config).await?;
        store.close().await;
        self.top_up(backlog).await?;
        let took = control::postgres(&self.pool, self.plan.of(part), true).await?;
        Ok([ours, rate(part, took), claim, both])
    }

    async fn claims(&self) -> anyhow::Result<[f64; 2]> {
        let times = claims::claims(self.url).await?;
        Ok([times[0], times[1]])
    }
}

/// Drains and claims over a size.
#[derive(Default)]
struct Curves {
    ours: Points,
    control: Points,
    claim: Points,
    both: Points,
}

impl Curves {
    fn add(&mut self, size: u64, [ours, control, claim, both]: [f64; 4]) {
        self.ours.add(size, ours);
        self.control.add(size, control);
        self.claim.add(size, claim);
        self.both.add(size, both);
    }

    fn panels(self, x: &str) -> [Panel; 2] {
        let drains = vec![self.ours.ours("dispatcher"), self.control.control("control")];
        let claims = vec![self.claim.ours("claim"), self.both.ours("claim and settle")];
        [
            panel("how fast it is drained", x, Unit::MessagesPerSecond, drains),
            panel("how long one claimer takes for a batch", x, Unit::Seconds, claims),
        ]
    }
}
