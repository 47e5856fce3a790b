//! `postroom enqueue`.

use postroom::{Message, MessageBuilder, Queue};
use serde_json::json;

use super::Report;
use super::traces::Traces;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::payload;
use crate::render::{inert, json};
use crate::store::{Access, Target};

pub(super) async fn run(
    args: args::Enqueue,
    target: &Target,
    as_json: bool,
) -> Result<Report, Failure> {
    if target.queue() != Queue::Outbox {
        let what = "enqueue writes to the outbox, not to the inbox";
        let next =
            "leave --queue out; messages enter an inbox through the service that receives them";
        return Err(Failure::new(Exit::Invalid, what).next(next));
    }
    // All limits are checked before the database is touched.
    let payload = payload::read(&args)?;
    let dry_run = args.dry_run;
    let message = message(args, payload).build()?;
    if dry_run {
        return Ok(foresee(&message, as_json));
    }
    let traces = Traces::of_command().await?;
    let store = target.open(Access::Write).await?;
    let published = store.enqueue(traces.create(message)?).await?;
    store.close().await;
    traces.end().await;
    let report = Report::data(match as_json {
        true => json::document(&json!({
            "id": published.id,
            "work_id": published.work,
            "already_existed": published.already_existed,
        })),
        false => format!("{}\n", published.id),
    });
    Ok(match published.already_existed {
        true => report.note("This message was there already; nothing was written."),
        false => report,
    })
}

/// Says what would be written. Whether its key is there already, only the database knows.
fn foresee(message: &Message, as_json: bool) -> Report {
    let (topic, bytes) = (message.topic().as_str(), message.payload().len());
    let content_type = message.content_type();
    let report = Report::data(match as_json {
        true => json::document(&json!({
            "dry_run": true,
            "topic": topic,
            "content_type": content_type,
            "payload_bytes": bytes,
        })),
        false => format!(
            "Would write a message of topic {} with {bytes} bytes of {}.\n",
            inert(topic),
            inert(content_type)
        ),
    });
    report.note("Nothing was written: this was a dry run.")
}

fn message(args: args::Enqueue, payload: Vec<u8>) -> MessageBuilder {
    let mut message = Message::builder(args.topic).payload(payload).priority(args.priority);
    for (name, value) in args.headers {
        message = message.header(name, value);
    }
    if let Some((kind, id)) = args.aggregate {
        message = message.aggregate(kind, id);
    }
    let texts = [
        (args.content_type, MessageBuilder::content_type as fn(MessageBuilder, String) -> _),
        (args.tenant, MessageBuilder::tenant_id),
        (args.ordering_key, MessageBuilder::ordering_key),
        (args.correlation_id, MessageBuilder::correlation_id),
        (args.causation_id, MessageBuilder::causation_id),
    ];
    for (text, set) in texts {
        if let Some(text) = text {
            message = set(message, text);
        }
    }
    if let Some(key) = args.key {
        message = message.idempotency_key(key);
    }
    if let Some(id) = args.id {
        message = message.id(id);
    }
    message = match (args.due_in, args.due_at) {
        (Some(delay), _) => message.due_after(delay),
        (None, Some(time)) => message.due_at(time),
        (None, None) => message,
    };
    match (args.expires_in, args.expires_at) {
        (Some(delay), _) => message.expires_after(delay),
        (None, Some(time)) => message.expires_at(time),
        (None, None) => message,
    }
}
