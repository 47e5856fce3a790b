//! Messages: look, publish, replay, discard.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use postroom_core::store::Act;
use postroom_core::{Message, Timestamp, When};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::input::{Body, Filter, Named, Paging, Query, Reason, Where, future};
use super::shape::{Detail, Item, Messages, Outcome, Published, Safe};
use crate::desk::Desk;
use crate::desk::act::Edit;
use crate::problem::Problem;
use crate::routes::Caller;
use crate::{Right, access::Person};

/// A view shows no more of a payload.
const MOST_SHOWN: usize = 64 * 1024;
/// JSON has to be whole to be shown.
const MOST_JSON: usize = 1024 * 1024;
/// Numbers past this are not exact in JavaScript.
const EXACT: u64 = 1 << 53;

/// Messages, newest first.
#[utoipa::path(get, path = "/messages", tag = "messages", params(Where, Filter, Paging),
    responses((status = 200, body = Messages)))]
pub(super) async fn list(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Messages>, Problem> {
    let queue = &*query.queue(&desk)?;
    let filter = query.filter()?;
    let (before, limit) = (query.parse("before")?, query.limit(50, 500)?);
    query.finish()?;
    let mut list = filter.list()?;
    (list.before, list.limit) = (before, limit);
    let page = queue.store.list(&list).await?;
    Ok(Safe(Messages {
        partial: page.next.is_some() && page.records.len() < limit as usize,
        items: page.records.iter().map(Item::new).collect(),
        next: page.next.map(|place| place.to_string()),
    }))
}

/// One message with its history.
#[utoipa::path(get, path = "/messages/{id}", tag = "messages",
    params(("id" = String, Path), Where), responses((status = 200, body = Detail)))]
pub(super) async fn show(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    id: Named,
    mut query: Query,
) -> Result<Safe<Detail>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let detail = desk.find(queue, id.message()?).await?;
    Ok(Safe(Detail::new(&detail, caller.may(Right::Payload))))
}

/// The payload of a message: its bytes as a download, or a view of it as JSON.
#[utoipa::path(get, path = "/messages/{id}/payload", tag = "messages",
    params(("id" = String, Path), Where,
        ("as" = Option<String>, Query, description = "`json`, `text` or `hex`: a view")),
    responses((status = 200, content(
        (Vec<u8> = "application/octet-stream"), (Value = "application/json")))))]
pub(super) async fn payload(
    State(desk): State<Arc<Desk>>,
    id: Named,
    mut query: Query,
) -> Result<Response, Problem> {
    let queue = &*query.queue(&desk)?;
    let view = query.text("as");
    query.finish()?;
    let id = id.message()?;
    let message = desk
        .find(queue, id)
        .await?
        .record
        .message
        .ok_or_else(|| Problem::not_found(format!("the row of {id} can not be decoded")))?;
    let payload = message.payload();
    match view.as_deref() {
        None => Ok(download(&format!("{id}.bin"), payload.clone())),
        Some(view) => {
            let shown = shown(view, payload)?;
            let whole = payload.len();
            let kind = message.content_type();
            let view = json!({ "as": view, "value": shown, "bytes": whole,
                "content_type": kind, "truncated": view != "json" && whole > MOST_SHOWN });
            Ok(Safe(view).into_response())
        }
    }
}

/// Never shown by a browser in our name, whatever the bytes are.
fn download(name: &str, bytes: Bytes) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, bytes).into_response()
}

fn shown(view: &str, payload: &[u8]) -> Result<Value, Problem> {
    let start = &payload[..payload.len().min(MOST_SHOWN)];
    match view {
        "text" => Ok(String::from_utf8_lossy(start).into()),
        "hex" => Ok(hex(start).into()),
        "json" if payload.len() > MOST_JSON => {
            Err(Problem::invalid(format!("as=json shows at most {MOST_JSON} bytes; use as=text")))
        }
        "json" => match serde_json::from_slice(payload) {
            Ok(value) => Ok(exact(value)),
            Err(_) => Err(Problem::invalid("this payload is not JSON; use as=text or as=hex")),
        },
        _ => Err(Problem::invalid(format!("as must be json, text or hex, got {view:?}"))),
    }
}

/// Numbers that JavaScript would round become texts.
fn exact(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let large = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
            match large.is_some_and(|large| large > EXACT) {
                true => Value::String(number.to_string()),
                false => Value::Number(number),
            }
        }
        Value::Array(values) => values.into_iter().map(exact).collect(),
        Value::Object(map) => map.into_iter().map(|(name, value)| (name, exact(value))).collect(),
        other => other,
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digits = |byte: &u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    bytes.iter().flat_map(digits).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>, Problem> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match pair {
        [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.ok_or_else(|| Problem::invalid("hex must be pairs of hexadecimal digits"))
}

/// A message to publish. Its payload is one of `payload`, `text` and `hex`, or empty.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// 1 to 255 characters.
    pub(crate) topic: String,
    /// Any JSON; it is written anew. Use `text` for exact bytes.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    pub(crate) payload: Option<Value>,
    pub(crate) text: Option<String>,
    pub(crate) hex: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) headers: Option<BTreeMap<String, String>>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) ordering_key: Option<String>,
    pub(crate) tenant_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) causation_id: Option<String>,
    /// A UUID. A second message with the same one is not written.
    pub(crate) idempotency_key: Option<String>,
    /// RFC 3339, or how long from now, such as `15m`.
    pub(crate) due_at: Option<String>,
    /// RFC 3339, or how long from now.
    pub(crate) expires_at: Option<String>,
    /// -100 to 100.
    pub(crate) priority: Option<i16>,
}

/// A payload of `null` is one, too.
fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl NewMessage {
    /// The message, if every field is within its limits.
    pub(crate) fn message(self) -> Result<Message, Problem> {
        let now = Timestamp::host_now();
        let mut new = Message::builder(self.topic);
        if let Some(payload) = bytes(self.payload, self.text, self.hex)? {
            new = new.payload(payload);
        }
        if let Some(id) = self.id {
            new = new.id(id.parse()?);
        }
        if let Some(kind) = self.content_type {
            new = new.content_type(kind);
        }
        for (name, value) in self.headers.into_iter().flatten() {
            new = new.header(name, value);
        }
        if let Some(kind) = self.aggregate_type {
            new = new.aggregate_type(kind);
        }
        if let Some(id) = self.aggregate_id {
            new = new.aggregate_id(id);
        }
        if let Some(key) = self.ordering_key {
            new = new.ordering_key(key);
        }
        if let Some(tenant) = self.tenant_id {
            new = new.tenant_id(tenant);
        }
        if let Some(key) = self.idempotency_key {
            let key = uuid::Uuid::try_parse(&key);
            new = new.idempotency_key(
                key.map_err(|_| Problem::invalid("idempotency_key must be a UUID"))?,
            );
        }
        if let Some(due) = self.due_at {
            new = new.due(When::At(future("due_at", &due, now)?));
        }
        if let Some(end) = self.expires_at {
            new = new.expires(When::At(future("expires_at", &end, now)?));
        }
        let message = new
            .correlation_id(self.correlation_id.unwrap_or_default())
            .causation_id(self.causation_id.unwrap_or_default())
            .priority(self.priority.unwrap_or(0))
            .build()?;
        Ok(message)
    }
}

fn bytes(
    payload: Option<Value>,
    text: Option<String>,
    hex: Option<String>,
) -> Result<Option<Vec<u8>>, Problem> {
    match (payload, text, hex) {
        (None, None, None) => Ok(None),
        (Some(value), None, None) => Ok(Some(value.to_string().into_bytes())),
        (None, Some(text), None) => Ok(Some(text.into_bytes())),
        (None, None, Some(hex)) => unhex(&hex).map(Some),
        _ => Err(Problem::invalid("payload, text and hex do not go together; give one of them")),
    }
}

/// Publishes a message, for trying out.
#[utoipa::path(post, path = "/messages", tag = "messages", params(Where),
    request_body = NewMessage, responses((status = 200, body = Published)))]
pub(super) async fn publish(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    mut query: Query,
    Body(new): Body<NewMessage>,
) -> Result<Safe<Published>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    Ok(written(desk.publish(&caller, queue, new.message()?).await?))
}

fn written(published: postroom_core::Published) -> Safe<Published> {
    Safe(Published {
        id: published.id.to_string(),
        already_existed: published.already_existed,
        same_content: published.same_content,
    })
}

/// What is different in a copy. What is left out is as in the old message.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Copy {
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Value>)]
    payload: Option<Value>,
    text: Option<String>,
    hex: Option<String>,
    /// All headers of the copy.
    headers: Option<BTreeMap<String, String>>,
}

/// Publishes a new message that says what an old one said, but for what is given here. The old one
/// stays as it is, and is named as the cause of the new one.
#[utoipa::path(post, path = "/messages/{id}/copy", tag = "messages",
    params(("id" = String, Path), Where), request_body = Copy,
    responses((status = 200, body = Published)))]
pub(super) async fn copy(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    id: Named,
    mut query: Query,
    Body(Copy { payload, text, hex, headers }): Body<Copy>,
) -> Result<Safe<Published>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let edit = Edit { payload: bytes(payload, text, hex)?, headers };
    Ok(written(desk.edit_as_copy(&caller, queue, id.message()?, edit).await?))
}

/// Tries a dead message again.
#[utoipa::path(post, path = "/messages/{id}/replay", tag = "messages",
    params(("id" = String, Path), Where), request_body = Reason,
    responses((status = 200, body = Outcome)))]
pub(super) async fn replay(
    state: State<Arc<Desk>>,
    caller: Caller,
    id: Named,
    query: Query,
    Body(reason): Body<Reason>,
) -> Result<Safe<Outcome>, Problem> {
    one(&state, &caller, Act::Replay, &id, query, &reason).await
}

/// Never tries a message again.
#[utoipa::path(post, path = "/messages/{id}/discard", tag = "messages",
    params(("id" = String, Path), Where), request_body = Reason,
    responses((status = 200, body = Outcome)))]
pub(super) async fn discard(
    state: State<Arc<Desk>>,
    caller: Caller,
    id: Named,
    query: Query,
    Body(reason): Body<Reason>,
) -> Result<Safe<Outcome>, Problem> {
    one(&state, &caller, Act::Discard, &id, query, &reason).await
}

async fn one(
    desk: &Desk,
    caller: &Person,
    act: Act,
    id: &Named,
    mut query: Query,
    Reason { reason }: &Reason,
) -> Result<Safe<Outcome>, Problem> {
    let queue = &*query.queue(desk)?;
    query.finish()?;
    let id = id.message()?;
    let changed = desk.act(caller, queue, act, &[id], reason.as_deref()).await?;
    match changed.refused.first() {
        Some((_, postroom_core::store::Refusal::Missing)) => {
            Err(Problem::not_found(format!("there is no message {id} in {queue}")))
        }
        _ => Ok(Safe(Outcome::new(&changed, false))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x05_numbers_that_javascript_rounds_are_texts() {
        let value = json!({ "a": [9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64],
            "b": i64::MIN, "c": 1.5, "d": "<b>" });
        let expected = json!({ "a": [9_007_199_254_740_992_u64, "9007199254740993"],
            "b": "-9223372036854775808", "c": 1.5, "d": "<b>" });
        assert_eq!(exact(value), expected);
        let json = super::super::shape::safe_json(&expected).unwrap();
        assert!(!json.contains('<'));
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), expected);
    }

    #[test]
    fn hex_is_read_as_it_is_written() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)).unwrap(), bytes);
        for bad in ["0", "zz", "0x", "+1", "é"] {
            assert!(unhex(bad).is_err(), "{bad}");
        }
    }
}
