//! Who did what.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::Timestamp;
use postroom_core::store::AuditRecord;

use super::frame::{Ask, Frame, Place};
use super::words::{self, When};
use crate::desk::Desk;
use crate::problem::Problem;

const ENTRIES: u32 = 50;

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    frame: Frame,
    rows: Vec<Row>,
    older: Option<String>,
}

struct Row {
    at: When,
    actor: String,
    action: String,
    target: String,
    outcome: String,
    changed: String,
}

pub(super) async fn audit(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.at_hand();
    let before = ask.get("before").map(str::parse::<i64>).transpose();
    let before = before.map_err(|_| Problem::invalid("before must be the number of an entry"))?;
    let found = queue.store.audit(before, ENTRIES).await?;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Audit, "Audit");
    let now = Timestamp::host_now();
    let last = found.last().filter(|_| found.len() == ENTRIES as usize);
    let older = last.map(|entry| frame.with("/audit", &[("before", &entry.number.to_string())]));
    let rows = found.iter().map(|entry| row(entry, now)).collect();
    ask.show(&Audit { rows, older, frame })
}

fn row(record: &AuditRecord, now: Timestamp) -> Row {
    let entry = &record.entry;
    Row {
        at: When::new(record.at, now),
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        target: entry.target.clone(),
        outcome: entry.outcome.clone(),
        changed: words::count(entry.changed),
    }
}
