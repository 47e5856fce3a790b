//! Messages of a filter as a file: one JSON object a line, without payloads.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use postroom_core::Timestamp;
use postroom_core::store::{AdminStore, List, Record};
use serde_json::json;

use super::filter::Filter;
use super::frame::Ask;
use super::{list, words};
use crate::desk::Desk;
use crate::problem::Problem;

const PAGE: u32 = 500;
const MOST: usize = 10_000;

pub(super) async fn export(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = ask.queue(&desk)?;
    let mut wanted = Filter::of(&ask.query).list(Timestamp::host_now())?;
    wanted.limit = PAGE;
    let start = Some((Arc::clone(&queue.store), wanted, 0));
    let lines = stream::try_unfold(start, |state| async move {
        let Some((store, wanted, sent)) = state else { return Ok(None) };
        further(store, wanted, sent).await.map(Some)
    });
    let head = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"messages.ndjson\""),
    ];
    Ok((head, Body::from_stream(lines)).into_response())
}

type Further = Option<(Arc<dyn AdminStore>, List, usize)>;

/// One page, and where the next begins.
async fn further(
    store: Arc<dyn AdminStore>,
    mut wanted: List,
    sent: usize,
) -> postroom_core::Result<(String, Further)> {
    let page = store.list(&wanted).await?;
    let room = MOST - sent;
    let lines: String = page.records.iter().take(room).map(line).collect();
    let sent = sent + page.records.len();
    wanted.before = page.next;
    let goes_on = page.next.is_some() && sent < MOST;
    Ok((lines, goes_on.then_some((store, wanted, sent))))
}

fn line(record: &Record) -> String {
    let message = record.message.as_ref();
    let line = json!({
        "id": record.id,
        "topic": record.topic,
        "state": list::state(record).1.to_lowercase(),
        "reason": record.reason.map(|reason| reason.as_str()),
        "tenant": record.tenant_id,
        "ordering_key": message.and_then(|m| m.ordering_key()).map(ToString::to_string),
        "aggregate_type": message.and_then(|m| m.aggregate_type()).map(ToString::to_string),
        "aggregate_id": message.and_then(|m| m.aggregate_id()).map(ToString::to_string),
        "created_at": words::iso(record.created_at),
        "processed_at": record.processed_at.map(words::iso),
        "attempts": record.attempts,
        "lost": record.lost,
        "last_error": record.last_error,
        "payload_bytes": record.payload_bytes,
    });
    format!("{line}\n")
}
