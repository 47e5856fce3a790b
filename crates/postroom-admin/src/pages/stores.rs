//! All boxes of all databases at a glance.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::store::Wakes;

use super::frame::{Ask, Frame, Place};
use super::words;
use crate::desk::{Desk, Queue};
use crate::problem::Problem;
use crate::sampler::Sample;

#[derive(Template)]
#[template(path = "stores.html")]
struct Stores {
    frame: Frame,
    rows: Vec<Row>,
}

struct Row {
    database: String,
    kind: &'static str,
    href: String,
    class: &'static str,
    state: &'static str,
    figures: Option<[(&'static str, String); 5]>,
    wakes: String,
    dispatchers: String,
}

pub(super) async fn stores(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let frame = Frame::around(&desk, &ask, Place::Stores, "Stores")?;
    // All at once: each waits a moment for its database.
    let samples = ask.queues.iter().map(|queue| queue.sampler.latest());
    let samples = futures_util::future::join_all(samples).await;
    let rows = ask.queues.iter().zip(&samples).map(|(queue, sample)| row(queue, sample, &frame));
    let page = Stores { rows: rows.collect(), frame };
    ask.show(&page)
}

fn row(queue: &Queue, sample: &Sample, frame: &Frame) -> Row {
    let (class, state) = match (&sample.seen, sample.wakes) {
        (None, _) => ("bad", "No answer"),
        (_, Wakes::PollOnly { .. }) => ("warn", "Poll only"),
        _ => ("good", "Fine"),
    };
    let figures = sample.seen.as_ref().map(|seen| {
        let stats = &seen.stats;
        [
            ("Pending", stats.ready + stats.waiting),
            ("In flight", stats.leased),
            ("Retrying", stats.failed),
            ("Dead", stats.dead),
            ("Done", stats.done),
        ]
        .map(|(name, number)| (name, words::count(number)))
    });
    let live = sample
        .seen
        .as_ref()
        .map(|seen| words::count(seen.nodes.iter().filter(|node| node.is_live).count() as u64));
    let pairs = [("store", queue.database.as_str()), ("box", queue.kind)];
    let pairs: Vec<_> =
        pairs.iter().map(|(name, value)| format!("{name}={}", words::encoded(value))).collect();
    Row {
        database: queue.database.clone(),
        kind: queue.kind,
        href: format!("{}?{}", frame.plain("/"), pairs.join("&")),
        class,
        state,
        figures,
        wakes: match sample.wakes {
            Wakes::InProcess => "in this process".to_owned(),
            Wakes::Listening => "at once".to_owned(),
            Wakes::PollOnly { why } => format!("by polling: {}", why.as_str()),
        },
        dispatchers: live.unwrap_or_default(),
    }
}
