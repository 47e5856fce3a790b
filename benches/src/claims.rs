//! P5: a claim with millions of settled messages and a large backlog, next to one with few.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::{Lease, OwnerToken, WorkQueue};
use postroom_stores::{PgStore, StoreConfig};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool};

use crate::bulk;
use crate::contest::{self, Contestant};
use crate::plan::Plan;
use crate::postgres::{self, fresh};
use crate::report::numbers::{digits, median, seconds, short};
use crate::report::{Case, Figure, Role, Series, Unit};

const FEW: u64 = 10_000;
/// Messages per claim, whatever a dispatcher takes.
const BATCH: u32 = 500;
/// Claims per round, and those before that nobody looks at.
const CLAIMS: usize = 10;
const WARM_UP: usize = 2;

const MANY_DATABASE: &str = "postroom_bench_many";
const FEW_DATABASE: &str = "postroom_bench_few";

pub(crate) async fn measure(
    url: &str,
    plan: Plan,
    settled: u64,
    backlog: u64,
) -> anyhow::Result<Figure> {
    let (many, few) = (create(url, MANY_DATABASE).await?, create(url, FEW_DATABASE).await?);
    let pool = PgPool::connect(&many).await?;
    let store = PgStore::connect(&many, StoreConfig::default()).await?;
    fresh(&pool, &store).await?;
    store.close().await;
    let mut conn = pool.acquire().await?;
    bulk::settled(&mut conn, "P5", settled, plan.payload).await?;
    bulk::backlog(&mut conn, "P5", backlog, plan.payload).await?;
    bulk::settle_down(&mut conn).await?;
    drop(conn);
    pool.close().await;
    let series = rounds(&many, &few, plan).await?;
    for name in [MANY_DATABASE, FEW_DATABASE] {
        run(url, &format!("drop database {name} with (force)")).await?;
    }
    let case = |what: &str, at: usize| {
        let both = vec![series[at].clone(), series[at + 2].clone()];
        let case = Case::new(what, Unit::Seconds, both);
        case.bar_over(Series::OURS, &series[at + 2].who, 1.5)
    };
    let shown = |count: u64| digits(count as f64);
    let batch = shown(u64::from(BATCH));
    let title = "PostgreSQL: a claim among many";
    Ok(Figure::new("P5", title)
        .note(format!("{} settled, backlog of {}", shown(settled), shown(backlog)))
        .note(format!("next to a backlog of {} with nothing settled", shown(FEW)))
        .note(format!("one claimer, {} rounds, medians of {CLAIMS} claims each", plan.rounds))
        .case(case(&format!("claim {batch}"), 0))
        .case(case(&format!("claim {batch} and settle them"), 1)))
}

/// Two series of the large database, then two of the small one.
async fn rounds(many: &str, few: &str, plan: Plan) -> anyhow::Result<Vec<Series>> {
    let small = format!("{} backlog", short(FEW as f64));
    let contestants = vec![
        Contestant::new(vec![Series::ours(); 2], move || claims(many)),
        Contestant::new(vec![Series::new(small, Role::Control); 2], move || async move {
            let pool = PgPool::connect(few).await?;
            let store = PgStore::connect(few, StoreConfig::default()).await?;
            fresh(&pool, &store).await?;
            store.close().await;
            let mut conn = pool.acquire().await?;
            bulk::top_up(&mut conn, "P5", FEW, plan.payload).await?;
            drop(conn);
            pool.close().await;
            claims(few).await
        }),
    ];
    contest::hold("P5", "claims", plan.rounds, contestants).await
}

/// How long a claim took, and a claim with its settle: medians.
pub(crate) async fn claims(url: &str) -> anyhow::Result<Vec<f64>> {
    let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    let queue = WorkQueue::new(Arc::clone(&store) as _);
    let owner = OwnerToken::random();
    let (mut claims, mut both) = (Vec::new(), Vec::new());
    for _ in 0..WARM_UP + CLAIMS {
        let began = Instant::now();
        let items = queue.claim(owner, Duration::from_secs(30), BATCH).await?.items;
        claims.push(began.elapsed());
        anyhow::ensure!(items.len() == BATCH as usize, "a claim of {}", items.len());
        let leases: Vec<Lease> = items.iter().map(|item| item.lease).collect();
        let settled = queue.ack(owner, &leases).await?;
        both.push(began.elapsed());
        anyhow::ensure!(settled.applied == leases.len(), "settled {settled:?}");
    }
    store.close().await;
    Ok([claims, both].map(|times| median(&seconds(&times[WARM_UP..]))).into())
}

/// An empty database beside the one that is there.
async fn create(url: &str, name: &str) -> anyhow::Result<String> {
    run(url, &format!("drop database if exists {name} with (force)")).await?;
    run(url, &format!("create database {name}")).await?;
    let options: PgConnectOptions = url.parse()?;
    Ok(options.database(name).to_url_lossy().to_string())
}

async fn run(url: &str, sql: &str) -> anyhow::Result<()> {
    let mut conn = PgConnection::connect(url).await?;
    postgres::run(&mut conn, sql).await?;
    Ok(conn.close().await?)
}
