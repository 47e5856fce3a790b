//! P6: a steady load while an old transaction is open, which keeps every dead row in the way.
//!
//! Messages come from another store handle, so that each of them is claimed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use postroom_core::{Message, Outbox};
use postroom_stores::{PgStore, StoreConfig};
use postroom_testkit::around::Wrapped;
use sqlx::{Connection as _, Executor as _, PgConnection, PgPool};
use tokio::task::JoinSet;

use crate::dispatch::{self, Counting, GRACE};
use crate::fill::bytes_of;
use crate::plan::Plan;
use crate::postgres::fresh;
use crate::progress::say;
use crate::report::numbers::{digits, median, percentile};
use crate::report::{Case, Figure, Line, Panel, Role, Series, Unit};
use crate::timed::{Taken, Times};

/// Who publishes, and how many messages at once: waiting for the disk with each one would be P2.
const PUBLISHERS: usize = 4;
const TOGETHER: usize = 25;

const WINDOW: Duration = Duration::from_secs(10);
const TRIAL: Duration = Duration::from_secs(10);
/// Before the old transaction begins.
const WARM_UP: Duration = Duration::from_secs(5);

pub(crate) async fn measure(
    url: &str,
    plan: Plan,
    rate: u64,
    minutes: u64,
) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    let wanted = rate as f64;
    let rate = sustainable(url, &pool, plan, wanted).await?;
    let load = Load::start(url, &pool, plan, rate).await?;
    load.watch(WARM_UP).await;
    let mut old = PgConnection::connect(url).await?;
    // A snapshot, and a number of its own.
    old.execute("begin isolation level repeatable read").await?;
    old.execute("select txid_current()").await?;
    let shown = digits(rate);
    say("P6", &format!("an old transaction is open, {shown} msg/s: {minutes} min"));
    let windows = load.watch(Duration::from_secs(60 * minutes)).await;
    old.execute("rollback").await?;
    old.close().await?;
    load.stop().await?;
    Ok(figure(plan, (wanted, rate), minutes, &windows))
}

/// The rate that is asked for, or the highest below it that this machine keeps up with.
async fn sustainable(url: &str, pool: &PgPool, plan: Plan, wanted: f64) -> anyhow::Result<f64> {
    let mut rate = wanted;
    while rate > wanted / 20.0 {
        let load = Load::start(url, pool, plan, rate).await?;
        let seen = load.watch(TRIAL).await;
        load.stop().await?;
        let backlog = seen.last().map_or(f64::INFINITY, |window| window.backlog);
        let published = seen.iter().map(|window| window.published).sum::<f64>();
        if backlog < rate && published > 0.95 * rate * TRIAL.as_secs_f64() {
            return Ok(rate);
        }
        say("P6", &format!("{} msg/s are too many for this machine", digits(rate)));
        rate *= 0.8;
    }
    anyhow::bail!("not even {} msg/s can be sustained; give a lower --rate", digits(rate))
}

/// Publishers and a dispatcher at work.
struct Load {
    store: Arc<Wrapped<PgStore, Times>>,
    handles: [Arc<PgStore>; 2],
    running: postroom_core::Running,
    sink: Counting,
    published: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    publishers: JoinSet<anyhow::Result<()>>,
}

/// What happened in ten seconds.
struct Window {
    /// Seconds from the start to its end.
    at: f64,
    length: f64,
    claims: Vec<Taken>,
    /// Messages that were published in it, and those that were waiting at its end.
    published: f64,
    delivered: f64,
    backlog: f64,
}

impl Load {
    async fn start(url: &str, pool: &PgPool, plan: Plan, rate: f64) -> anyhow::Result<Self> {
        let served = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
        let publisher = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
        fresh(pool, &served).await?;
        let store = Arc::new(Wrapped::new(Arc::clone(&served), Times::default()));
        let sink = Counting::default();
        let running = sink.start(Arc::clone(&store) as _, plan)?;
        let (published, over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let each = Duration::from_secs_f64((PUBLISHERS * TOGETHER) as f64 / rate);
        let mut publishers = JoinSet::new();
        for _ in 0..PUBLISHERS {
            let outbox = Outbox::new(Arc::clone(&publisher));
            let (published, over) = (Arc::clone(&published), Arc::clone(&over));
            let payload = bytes_of(plan.payload);
            publishers.spawn(async move {
                let mut ticks = tokio::time::interval(each);
                while !over.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    let message = || Message::builder("order.placed").payload(payload.clone());
                    outbox.publish_all((0..TOGETHER).map(|_| message())).await?;
                    published.fetch_add(TOGETHER, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
        let handles = [served, publisher];
        Ok(Self { store, handles, running, sink, published, over, publishers })
    }

    fn counts(&self) -> [f64; 2] {
        let done = self.sink.done.load(Ordering::Relaxed);
        [self.published.load(Ordering::Relaxed) as f64, done as f64]
    }

    async fn watch(&self, time: Duration) -> Vec<Window> {
        let began = Instant::now();
        let mut windows = Vec::new();
        self.store.around().take();
        let mut before = (0.0, self.counts());
        while began.elapsed() < time {
            tokio::time::sleep(WINDOW.min(time.saturating_sub(began.elapsed()))).await;
            let [published, delivered] = self.counts();
            let at = began.elapsed().as_secs_f64();
            windows.push(Window {
                at,
                length: at - before.0,
                claims: self.store.around().take(),
                published: published - before.1[0],
                delivered: delivered - before.1[1],
                backlog: (published - delivered).max(0.0),
            });
            before = (at, [published, delivered]);
            if windows.len() % 6 == 0 {
                let waiting = digits((published - delivered).max(0.0));
                say("P6", &format!("{at:.0} s, {waiting} messages wait"));
            }
        }
        windows
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        self.over.store(true, Ordering::Relaxed);
        while let Some(publisher) = self.publishers.join_next().await {
            publisher?.context("a publisher")?;
        }
        self.running.shutdown(GRACE).await;
        for handle in self.handles {
            handle.close().await;
        }
        Ok(())
    }
}

impl Window {
    /// Seconds of the claims that found something, or of those that found nothing.
    fn claims(&self, found: bool) -> Vec<f64> {
        let claims = self.claims.iter().filter(|claim| (claim.items > 0) == found);
        claims.map(|claim| claim.took.as_secs_f64()).collect()
    }
}

fn figure(plan: Plan, (wanted, rate): (f64, f64), minutes: u64, windows: &[Window]) -> Figure {
    // A minute, or less of what is short.
    let ends = (windows.len() / 4).clamp(1, 6);
    let (first, last) = (&windows[..ends], &windows[windows.len() - ends..]);
    let claims = |windows: &[Window]| -> f64 {
        median(&windows.iter().flat_map(|window| window.claims(true)).collect::<Vec<_>>())
    };
    let waiting = |windows: &[Window]| -> f64 {
        median(&windows.iter().map(|window| window.backlog).collect::<Vec<_>>())
    };
    let at_start = Series::new("the start", Role::Control).rounds(vec![claims(first)]);
    let at_end = Series::ours().rounds(vec![claims(last)]);
    let grown = (waiting(last) - waiting(first)).max(0.0);
    let seconds = WINDOW.as_secs() * ends as u64;
    let mut figure = Figure::new("P6", "PostgreSQL: a steady load and an old transaction")
        .note(format!("{} msg/s of {} B for {minutes} min", digits(rate), plan.payload))
        .note(dispatch::settings(plan))
        .note(format!("published by another store handle, {TOGETHER} per transaction"))
        .note(format!("start and end are {seconds} s each"));
    if rate < wanted {
        let note = format!("{} msg/s are too many for this machine", digits(wanted));
        figure = figure.note(note);
    }
    let flat = Case::single("backlog, end above start", Unit::Messages, grown);
    figure
        .case(Case::new("claim p50, the end", Unit::Seconds, vec![at_end, at_start]).bar_over(
            Series::OURS,
            "the start",
            2.0,
        ))
        // What comes in a second is on its way anyway.
        .case(flat.bar(Series::OURS, rate))
        .panel(panel("how long a claim takes", Unit::Seconds, claim_lines(windows)))
        .panel(panel("messages that wait", Unit::Messages, {
            vec![line("backlog", windows, |window| Some(window.backlog))]
        }))
        .panel(panel("throughput", Unit::MessagesPerSecond, rate_lines(windows)))
}

fn claim_lines(windows: &[Window]) -> Vec<Line> {
    let share = |found: bool, share: usize| {
        move |window: &Window| {
            let claims = window.claims(found);
            (!claims.is_empty()).then(|| percentile(&claims, share))
        }
    };
    let empty = line("p50 of those that found nothing", windows, share(false, 50));
    let mut lines =
        vec![line("p50", windows, share(true, 50)), line("p99", windows, share(true, 99))];
    lines.extend(Some(empty).filter(|line| !line.points.is_empty()));
    lines
}

fn rate_lines(windows: &[Window]) -> Vec<Line> {
    vec![
        line("delivered", windows, |window| Some(window.delivered / window.length)),
        line("published", windows, |window| Some(window.published / window.length)),
    ]
}

fn line(name: &str, windows: &[Window], value: impl Fn(&Window) -> Option<f64>) -> Line {
    let points = windows.iter().filter_map(|window| Some((window.at, value(window)?)));
    Line { name: name.to_owned(), role: Role::Ours, points: points.collect() }
}

fn panel(title: &str, unit: Unit, lines: Vec<Line>) -> Panel {
    let (title, x) = (title.to_owned(), "seconds since the old transaction began".to_owned());
    Panel { title, x, logarithmic: false, unit, lines }
}
