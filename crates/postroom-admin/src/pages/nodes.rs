//! Dispatchers, by what they last said of themselves.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::Timestamp;
use postroom_core::store::Node;

use super::frame::{Ask, Frame, Place};
use super::words::{self, When};
use crate::desk::Desk;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "nodes.html")]
struct Nodes {
    frame: Frame,
    nodes: Vec<NodeRow>,
}

pub(super) struct NodeRow {
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) version: String,
    pub(super) class: &'static str,
    pub(super) state: &'static str,
    pub(super) started: When,
    pub(super) seen: When,
    pub(super) leases: String,
    pub(super) slots: String,
}

impl NodeRow {
    pub(super) fn new(node: &Node, now: Timestamp) -> Self {
        let (class, state) = match (node.is_live, node.draining) {
            (true, false) => ("good", "Running"),
            (true, true) => ("warn", "Draining"),
            (false, _) => ("", "Gone"),
        };
        Self {
            name: node.name.clone(),
            owner: node.owner.to_string(),
            version: node.version.clone(),
            class,
            state,
            started: When::new(node.started_at, now),
            seen: When::new(node.seen_at, now),
            leases: words::count(node.leases),
            slots: words::count(node.slots),
        }
    }
}

pub(super) async fn nodes(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.latest().await;
    let now = Timestamp::host_now();
    let nodes = sample.seen.iter().flat_map(|seen| &seen.nodes);
    let page = Nodes {
        nodes: nodes.map(|node| NodeRow::new(node, now)).collect(),
        frame: Frame::new(&desk, &ask, queue, &sample, Place::Dispatchers, "Dispatchers"),
    };
    ask.show(&page)
}
