//! Ordering keys that stand still, and what stops them.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::Timestamp;
use postroom_core::store::{Block, BlockedKey};

use super::frame::{Ask, Frame, Place};
use super::words::{self, When};
use crate::desk::Desk;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "keys.html")]
struct Keys {
    frame: Frame,
    rows: Vec<Row>,
}

struct Row {
    key: Option<String>,
    tenant: Option<String>,
    topic: String,
    id: String,
    short: String,
    head: String,
    behind: String,
    behind_href: String,
    /// Nothing when a dead message stops it.
    until: Option<When>,
}

pub(super) async fn keys(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Keys, "Ordering keys");
    let now = Timestamp::host_now();
    let blocked = sample.seen.iter().flat_map(|seen| &seen.blocked);
    let rows = blocked.map(|key| row(key, &frame, now)).collect();
    ask.show(&Keys { rows, frame })
}

fn row(blocked: &BlockedKey, frame: &Frame, now: Timestamp) -> Row {
    let key = blocked.ordering_key.as_deref().unwrap_or_default();
    let tenant = blocked.tenant_id.as_deref().unwrap_or_default();
    let more = if blocked.behind >= BlockedKey::MOST_BEHIND { "+" } else { "" };
    Row {
        key: blocked.ordering_key.clone(),
        tenant: blocked.tenant_id.clone(),
        topic: blocked.topic.clone(),
        id: blocked.by.to_string(),
        short: words::short(blocked.by),
        head: frame.message(&blocked.by),
        behind: format!("{}{more}", words::count(blocked.behind)),
        behind_href: frame
            .with("/messages", &[("status", "pending"), ("ordering_key", key), ("tenant", tenant)]),
        until: match blocked.block {
            Block::Retry { until } => Some(When::new(until, now)),
            Block::Halted => None,
        },
    }
}
