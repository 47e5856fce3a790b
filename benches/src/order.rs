//! P7: ordered drains next to an unordered one, by the whole dispatcher on PostgreSQL.

use std::sync::Arc;

use postroom_core::{Message, MessageBuilder, Outbox};
use postroom_stores::{PgStore, StoreConfig};
use sqlx::PgPool;

use crate::contest::{self, Contestant};
use crate::dispatch::{self, BLOCKED, Counting};
use crate::fill::bytes_of;
use crate::plan::Plan;
use crate::postgres::fresh;
use crate::report::{Case, Figure, Role, Series, Unit};

/// What a backlog looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Unordered,
    Keys(usize),
    /// 10,000 keys; as many messages again are behind one that waits.
    HalfBlocked,
    /// One key, and a sink that takes runs.
    OneKey,
}

/// Each with the part of an unordered drain that it has to reach.
const ORDERED: [(Shape, &str, f64); 4] = [
    (Shape::Keys(10_000), "10,000 keys", 0.8),
    (Shape::Keys(100), "100 keys", 0.5),
    (Shape::HalfBlocked, "half behind a blocked key", 0.5),
    (Shape::OneKey, "one key, a sink that takes runs", 0.3),
];

const UNORDERED: &str = "unordered";

pub(crate) async fn measure(url: &str, plan: Plan) -> anyhow::Result<Figure> {
    let pool = PgPool::connect(url).await?;
    let pool = &pool;
    let run = |series: Series, shape: Shape| {
        Contestant::new([series], move || async move { drain(url, pool, plan, shape).await })
    };
    let mut contestants = vec![run(Series::new(UNORDERED, Role::Control), Shape::Unordered)];
    contestants.extend(ORDERED.map(|(shape, ..)| run(Series::ours(), shape)));
    let series = contest::hold("P7", "ordered drains", plan.rounds, contestants).await?;
    let figure = Figure::new("P7", "PostgreSQL: ordered drains")
        .note(plan.sizes())
        .note(dispatch::settings(plan))
        .note("control: the same dispatcher with messages that have no key");
    let cases = ORDERED.iter().zip(&series[1..]).map(|((_, what, bar), ours)| {
        let both = vec![ours.clone(), series[0].clone()];
        let case = Case::new(format!("ordered, {what}"), Unit::MessagesPerSecond, both);
        case.bar_over(Series::OURS, UNORDERED, *bar)
    });
    Ok(cases.fold(figure, Figure::case))
}

/// Fills, and answers how many messages a second were handled until all of it was settled.
pub(crate) async fn drain(
    url: &str,
    pool: &PgPool,
    plan: Plan,
    shape: Shape,
) -> anyhow::Result<f64> {
    let store = Arc::new(PgStore::connect(url, StoreConfig::default()).await?);
    fresh(pool, &store).await?;
    fill(&store, plan, shape).await?;
    let takes_runs = shape == Shape::OneKey;
    let messages = if shape == Shape::HalfBlocked { plan.messages / 2 } else { plan.messages };
    let sink = Counting { takes_runs, ..Counting::default() };
    let config = dispatch::config(plan);
    let per_second = dispatch::drain(Arc::clone(&store) as _, sink, messages, config).await?;
    store.close().await;
    Ok(per_second)
}

async fn fill(store: &Arc<PgStore>, plan: Plan, shape: Shape) -> anyhow::Result<()> {
    let outbox = Outbox::new(Arc::clone(store));
    let payload = bytes_of(plan.payload);
    for start in (0..plan.messages).step_by(10_000) {
        let chunk = start..plan.messages.min(start + 10_000);
        outbox.publish_all(chunk.map(|n| message(shape, n, &payload))).await?;
    }
    Ok(())
}

fn message(shape: Shape, n: usize, payload: &[u8]) -> MessageBuilder {
    let builder = Message::builder("order.placed").payload(payload.to_vec());
    match shape {
        Shape::Unordered => builder,
        Shape::Keys(keys) => builder.ordering_key((n % keys).to_string()),
        Shape::HalfBlocked if n.is_multiple_of(2) => builder.ordering_key(BLOCKED),
        Shape::HalfBlocked => builder.ordering_key((n / 2 % 10_000).to_string()),
        Shape::OneKey => builder.ordering_key("one"),
    }
}
