//! Topics with what is not delivered of them, and their pauses.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::store::PauseRecord;
use postroom_core::{Throughput, Timestamp};

use super::frame::{Ask, Frame, Place};
use super::words::{self, When};
use crate::desk::Desk;
use crate::problem::Problem;
use crate::sampler::Seen;

/// Topics that are shown only because something of them was delivered.
const MOST_BUSY: usize = 100;

#[derive(Template)]
#[template(path = "topics.html")]
struct Topics {
    frame: Frame,
    rows: Vec<Row>,
    whole: Option<Pause>,
    is_away: bool,
}

struct Row {
    topic: String,
    /// Of this process in the last minute; nothing when it delivers nothing at all.
    rate: Option<Rate>,
    live: String,
    failed: u64,
    dead: u64,
    pause: Option<Pause>,
    messages: String,
    failed_href: String,
    dead_href: String,
}

struct Rate {
    per_second: String,
    failing: Option<String>,
}

struct Pause {
    since: When,
    by: Option<String>,
    reason: Option<String>,
}

impl Pause {
    fn new(pause: &PauseRecord, now: Timestamp) -> Self {
        let PauseRecord { since, by, reason, .. } = pause;
        Self { since: When::new(*since, now), by: by.clone(), reason: reason.clone() }
    }
}

pub(super) async fn topics(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Topics, "Topics");
    let now = Timestamp::host_now();
    // Pauses are read anew: who has just paused wants to see it.
    let pauses = queue.store.pauses().await?;
    let whole = pauses.iter().find(|pause| pause.topic.is_none()).map(|p| Pause::new(p, now));
    let delivers = sample.snapshot.dispatchers > 0;
    let lately = delivers.then(|| queue.store.local().topics());
    let rows = rows(sample.seen.as_ref(), &pauses, lately.as_ref(), &frame, now);
    let page = Topics { rows, whole, is_away: sample.seen.is_none(), frame };
    ask.show(&page)
}

/// Topics with undelivered messages, paused ones without any, and those that go through.
fn rows(
    seen: Option<&Seen>,
    pauses: &[PauseRecord],
    lately: Option<&BTreeMap<String, Throughput>>,
    frame: &Frame,
    now: Timestamp,
) -> Vec<Row> {
    let mut by_topic: BTreeMap<&str, &PauseRecord> =
        pauses.iter().filter_map(|pause| Some((pause.topic.as_deref()?, pause))).collect();
    let row = |topic: &str, live, failed, dead, pause: Option<&PauseRecord>| Row {
        topic: topic.to_owned(),
        rate: lately.map(|lately| rate(lately.get(topic))),
        live: words::count(live),
        failed,
        dead,
        pause: pause.map(|pause| Pause::new(pause, now)),
        messages: frame.with("/messages", &[("topic", topic)]),
        failed_href: frame.with("/messages", &[("status", "failed"), ("topic", topic)]),
        dead_href: frame.with("/dead", &[("topic", topic)]),
    };
    let mut rows = Vec::new();
    for stats in seen.iter().flat_map(|seen| &seen.topics) {
        let pause = by_topic.remove(&*stats.topic);
        rows.push(row(&stats.topic, stats.live, stats.failed, stats.dead, pause));
    }
    rows.extend(by_topic.into_iter().map(|(topic, pause)| row(topic, 0u64, 0, 0, Some(pause))));
    let is_new = |topic: &&String| rows.iter().all(|row| row.topic != **topic);
    let busy = lately.into_iter().flatten().filter(|(_, lately)| lately.done + lately.failed > 0);
    let busy: Vec<_> = busy.map(|(topic, _)| topic).filter(is_new).take(MOST_BUSY).collect();
    rows.extend(busy.into_iter().map(|topic| row(topic, 0u64, 0, 0, None)));
    rows
}

fn rate(lately: Option<&Throughput>) -> Rate {
    let lately = lately.copied().unwrap_or_default();
    let failing = (lately.failed > 0).then(|| words::percent(lately.failure_ratio));
    Rate { per_second: words::rate(lately.per_second), failing }
}
