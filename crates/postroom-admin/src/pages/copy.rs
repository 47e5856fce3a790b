//! A message to be published again, with changes, as a new one.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use postroom_core::MessageId;

use super::frame::{Ask, Frame, Place};
use crate::desk::Desk;
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "copy.html")]
struct Copy {
    frame: Frame,
    id: String,
    topic: String,
    message_href: String,
    /// Nothing when it is not text: then it can not be edited, and is kept as it is.
    payload: Option<String>,
    headers: String,
}

pub(super) async fn copy(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    ask: Ask,
) -> Result<Response, Problem> {
    let queue = ask.queue(&desk)?;
    let id: MessageId = id.parse()?;
    let record = desk.find(queue, id).await?.record;
    let Some(message) = record.message else {
        return Err(Problem::invalid("this message can not be decoded, so it can not be copied"));
    };
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Messages, "Edit as copy");
    let headers = message.headers().iter().map(|(name, value)| format!("{name}: {value}"));
    let page = Copy {
        id: id.to_string(),
        topic: record.topic,
        message_href: frame.message(&id),
        payload: String::from_utf8(message.payload().to_vec()).ok(),
        headers: headers.collect::<Vec<_>>().join("\n"),
        frame,
    };
    ask.show(&page)
}
