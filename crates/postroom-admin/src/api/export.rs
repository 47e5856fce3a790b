//! Messages as lines of JSON, page by page, for other tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use postroom_core::store::{AdminStore, List, Record};
use postroom_core::{Error, Message};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::input::{Filter, Query, Where};
use super::shape::{Item, safe_json};
use crate::Right;
use crate::desk::Desk;
use crate::problem::Problem;
use crate::routes::Caller;

/// The most messages of one export.
const MOST: u32 = 100_000;
const PAGE: u32 = 500;

/// Messages that match a filter, newest first, a line of JSON each. When the end is missing, the
/// connection breaks.
#[utoipa::path(get, path = "/export", tag = "messages", params(Where, Filter,
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100_000,
            description = "How many at most. Default 10,000."),
        ("payloads" = Option<bool>, Query,
            description = "With headers and payloads; needs the right to see payloads.")),
    responses((status = 200, body = String, content_type = "application/x-ndjson")))]
pub(super) async fn export(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    mut query: Query,
) -> Result<Response, Problem> {
    let queue = &*query.queue(&desk)?;
    let with_payloads = query.parse("payloads")?.unwrap_or(false);
    let left = query.limit(10_000, MOST)?;
    let filter = query.filter()?;
    query.finish()?;
    if with_payloads && !caller.may(Right::Payload) {
        return Err(Problem::forbidden(&caller.name, Right::Payload));
    }
    let list = List { limit: PAGE, ..filter.list()? };
    let store = Arc::clone(&queue.store);
    let pages = Pages { store, list, left, with_payloads, _permit: desk.stream()? };
    let body = stream::try_unfold(Some(pages), |pages| async {
        let Some(pages) = pages else { return Ok(None) };
        pages.next().await.map(Some)
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"messages.ndjson\""),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Where an export is.
struct Pages {
    store: Arc<dyn AdminStore>,
    list: List,
    left: u32,
    with_payloads: bool,
    _permit: OwnedSemaphorePermit,
}

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    message: Item,
    #[serde(flatten)]
    content: Option<Content>,
}

/// Bytes that are not UTF-8 are written as hex, so that nothing is lost.
#[derive(Serialize)]
struct Content {
    headers: BTreeMap<String, String>,
    payload: String,
    payload_encoding: &'static str,
}

impl Content {
    fn new(message: &Message) -> Self {
        let headers = message.headers().iter();
        let (payload, payload_encoding) = match std::str::from_utf8(message.payload()) {
            Ok(text) => (text.to_owned(), "utf-8"),
            Err(_) => (super::messages::hex(message.payload()), "hex"),
        };
        Self {
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            payload,
            payload_encoding,
        }
    }
}

impl Pages {
    async fn next(mut self) -> Result<(String, Option<Self>), Error> {
        self.list.limit = PAGE.min(self.left);
        let page = self.store.list(&self.list).await?;
        let mut lines = String::new();
        for record in &page.records {
            lines += &self.line(record).await?;
        }
        self.left -= u32::try_from(page.records.len()).unwrap_or(self.left).min(self.left);
        self.list.before = page.next;
        let goes_on = page.next.is_some() && self.left > 0;
        Ok((lines, goes_on.then_some(self)))
    }

    async fn line(&self, record: &Record) -> Result<String, Error> {
        let detail = match self.with_payloads {
            true => self.store.get(record.id).await?,
            false => None,
        };
        let content = detail.and_then(|detail| detail.record.message.as_ref().map(Content::new));
        let line = Line { message: Item::new(record), content };
        // Texts and numbers always can be written.
        Ok(safe_json(&line).unwrap_or_default() + "\n")
    }
}
