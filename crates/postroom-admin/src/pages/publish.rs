//! A message to be published by hand, for trying out.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use postroom_core::{Message, Published};
use serde::de::IgnoredAny;

use super::act::{headers, value};
use super::flash::Flash;
use super::form::{Field, Sheet};
use super::frame::{self, Ask, Frame, Place};
use crate::api::messages::NewMessage;
use crate::desk::{Desk, Queue};
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "publish.html")]
struct Publish {
    frame: Frame,
    /// What is needed, and what few need.
    first: Vec<Field>,
    further: Vec<Field>,
    is_open: bool,
    problem: Option<String>,
}

/// How many fields stand above "More fields".
const FIRST: usize = 4;

fn sheet() -> Sheet {
    let line = Field::line;
    let when = "A duration from now such as 15m, 12h or 7d, or a time such as 2026-03-01T12:00:00Z";
    Sheet::new(vec![
        line("topic", "Topic", "1 to 255 characters").example("order.placed").needed(),
        line("ordering_key", "Ordering key", "Messages of one key are delivered one by one"),
        line("payload", "Payload", "Written as it stands here; JSON is checked")
            .example("{\"order\": 7}")
            .lines(7),
        line("headers", "Headers", "One a line, as name: value").lines(3),
        line("content_type", "Content type", "Default: application/json"),
        line("tenant_id", "Tenant", "At most 64 characters"),
        line("aggregate_type", "Aggregate type", "At most 64 characters"),
        line("aggregate_id", "Aggregate id", "At most 128 characters"),
        line("correlation_id", "Correlation id", "At most 255 characters"),
        line(
            "idempotency_key",
            "Idempotency key",
            "A UUID; a second message with it is not written",
        ),
        line("due_at", "Not before", when).example("15m"),
        line("expires_at", "Not after", when).example("7d"),
        line("priority", "Priority", "-100 to 100; higher goes first").example("0"),
    ])
}

/// The form, with what the address says already in it.
pub(super) async fn form(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    desk.may_change()?;
    let mut sheet = sheet();
    sheet.fill(|name| ask.get(name));
    let queue = &*ask.queue()?;
    let outbox = ask.queues.find(Some(&queue.database), Some("outbox"))?;
    show(&desk, &ask, &outbox, sheet).await
}

/// Publishes it and shows it, or says what is wrong with it.
pub(super) async fn publish(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(written): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queue = &*ask.to_change(&written)?;
    let mut sheet = sheet();
    sheet.fill(|name| value(&written, name));
    let published = match message(&sheet) {
        Ok(message) => desk.publish(&ask.caller, queue, message).await,
        Err(problem) => Err(problem),
    };
    match published {
        Ok(published) => {
            queue.sampler.look();
            let there = frame::page_of(&ask.queues, queue, &format!("/messages/{}", published.id));
            Ok(told(published).redirect(&ask.base, &there))
        }
        Err(problem) if is_theirs(&problem) => {
            sheet.refuse(&problem);
            let page = show(&desk, &ask, queue, sheet).await?;
            Ok((problem.status, page).into_response())
        }
        Err(problem) => Err(problem),
    }
}

/// Whether the input can be changed so that it works.
pub(super) fn is_theirs(problem: &Problem) -> bool {
    matches!(problem.status, StatusCode::UNPROCESSABLE_ENTITY | StatusCode::CONFLICT)
}

fn told(published: Published) -> Flash {
    match (published.already_existed, published.same_content) {
        (false, _) => Flash::good("Published."),
        (true, true) => Flash::warn(
            "Nothing was written: this message, with the same idempotency key and the same \
             content, was there already.",
        ),
        (true, false) => Flash::warn(
            "Nothing was written: the idempotency key belongs to this message, which says \
             something else.",
        ),
    }
}

fn message(sheet: &Sheet) -> Result<Message, Problem> {
    let priority = sheet.get("priority").map(|text| {
        let wrong =
            |_| Problem::invalid(format!("priority must be a number, -100 to 100, got {text:?}"));
        text.parse::<i16>().map_err(wrong)
    });
    let new = NewMessage {
        topic: sheet.get("topic").unwrap_or_default(),
        // Forms turn line ends into CRLF; messages have the plain ones.
        text: sheet.get("payload").map(|text| text.replace("\r\n", "\n")),
        content_type: sheet.get("content_type"),
        headers: sheet.get("headers").map(|text| headers(&text)).transpose()?,
        aggregate_type: sheet.get("aggregate_type"),
        aggregate_id: sheet.get("aggregate_id"),
        ordering_key: sheet.get("ordering_key"),
        tenant_id: sheet.get("tenant_id"),
        correlation_id: sheet.get("correlation_id"),
        idempotency_key: sheet.get("idempotency_key"),
        due_at: sheet.get("due_at"),
        expires_at: sheet.get("expires_at"),
        priority: priority.transpose()?,
        ..NewMessage::default()
    };
    let message = new.message()?;
    check_json(&message)?;
    Ok(message)
}

/// Who says that it is JSON and makes a slip of the pen wants to know before a consumer does.
fn check_json(message: &Message) -> Result<(), Problem> {
    let kind = message.content_type().split(';').next().unwrap_or_default().trim();
    let is_json = kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json");
    if !is_json || message.payload().is_empty() {
        return Ok(());
    }
    match serde_json::from_slice::<IgnoredAny>(message.payload()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::invalid(format!(
            "payload must be JSON, as its content type says: {error}; correct it, or give \
             another content type, such as text/plain"
        ))),
    }
}

async fn show(
    desk: &Desk,
    ask: &Ask,
    queue: &Queue,
    mut sheet: Sheet,
) -> Result<Response, Problem> {
    let sample = queue.sampler.at_hand();
    let frame = Frame::new(desk, ask, queue, &sample, Place::Messages, "Publish a message");
    let further = sheet.all.split_off(FIRST);
    let is_open = further.iter().any(|field| !field.value.is_empty() || field.error.is_some());
    let problem = sheet.problem;
    ask.show(&Publish { first: sheet.all, further, is_open, problem, frame })
}
