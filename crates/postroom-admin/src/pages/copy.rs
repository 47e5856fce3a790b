//! A message to be published again, with changes, as a new one.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Form, Path, State};
use axum::response::{IntoResponse as _, Response};
use postroom_core::{Message, MessageId};

use super::act::{headers, value};
use super::flash::Flash;
use super::form::{Field, Sheet};
use super::frame::{self, Ask, Frame, Place};
use super::publish::is_theirs;
use super::words;
use crate::access::Right;
use crate::desk::act::Edit;
use crate::desk::{Desk, Queue};
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "copy.html")]
struct Copy {
    frame: Frame,
    id: String,
    topic: String,
    message_href: String,
    /// The payload is not there when it is no text: then it is kept as it is.
    fields: Vec<Field>,
    is_text: bool,
    problem: Option<String>,
}

/// The form, with what the message says.
pub(super) async fn copy(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    ask: Ask,
) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let message = find(&desk, queue, id.parse()?).await?;
    let sheet = sheet(&message);
    show(&desk, &ask, queue, &message, sheet).await
}

async fn find(desk: &Desk, queue: &Queue, id: MessageId) -> Result<Message, Problem> {
    let record = desk.find(queue, id).await?.record;
    let told = "this message can not be decoded, so it can not be copied";
    record.message.ok_or_else(|| Problem::invalid(told))
}

fn sheet(message: &Message) -> Sheet {
    let lines = message.headers().iter().map(|(name, value)| format!("{name}: {value}"));
    let mut headers = Field::line("headers", "Headers", "One a line, as name: value").lines(5);
    headers.value = lines.collect::<Vec<_>>().join("\n");
    let payload = String::from_utf8(message.payload().to_vec()).ok().map(|text| Field {
        value: text,
        ..Field::line("payload", "Payload", "Written as it stands here").lines(14)
    });
    Sheet::new(payload.into_iter().chain([headers]).collect())
}

/// Publishes the copy and shows it, or says what is wrong with it.
pub(super) async fn publish(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(written): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queue = &*ask.to_change(&written)?;
    let id: MessageId = value(&written, "id").unwrap_or_default().parse()?;
    let raw = |name: &str| {
        let mut fields = written.iter().filter(|(key, _)| key == name);
        fields.next().map(|(_, value)| value.as_str())
    };
    let edit = raw("headers").map(headers).transpose().map(|headers| Edit {
        // Forms turn line ends into CRLF; messages have the plain ones.
        payload: raw("payload").map(|text| text.replace("\r\n", "\n").into_bytes()),
        headers,
    });
    let published = match edit {
        Ok(edit) => desk.edit_as_copy(&ask.caller, queue, id, edit).await,
        Err(problem) => Err(problem),
    };
    match published {
        Ok(published) => {
            queue.sampler.look();
            let flash = Flash::good(format!("Published as a copy of {}.", words::short(id)));
            let there = frame::page_of(&ask.queues, queue, &format!("/messages/{}", published.id));
            Ok(flash.redirect(&ask.base, &there))
        }
        // The form shows the message, and to post it takes less than to see that.
        Err(problem) if is_theirs(&problem) && ask.caller.may(Right::Payload) => {
            let message = find(&desk, queue, id).await?;
            let mut sheet = sheet(&message);
            sheet.fill(raw);
            sheet.refuse(&problem);
            let page = show(&desk, &ask, queue, &message, sheet).await?;
            Ok((problem.status, page).into_response())
        }
        Err(problem) => Err(problem),
    }
}

async fn show(
    desk: &Desk,
    ask: &Ask,
    queue: &Queue,
    message: &Message,
    sheet: Sheet,
) -> Result<Response, Problem> {
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(desk, ask, queue, &sample, Place::Messages, "Edit as copy");
    let page = Copy {
        id: message.id().to_string(),
        topic: message.topic().to_string(),
        message_href: frame.message(&message.id()),
        is_text: sheet.all.len() > 1,
        problem: sheet.problem,
        fields: sheet.all,
        frame,
    };
    ask.show(&page)
}
