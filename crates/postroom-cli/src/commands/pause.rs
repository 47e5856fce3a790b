//! `postroom pause`, `postroom resume` and `postroom pauses`.

use postroom::Topic;
use postroom::store::{AdminStore, Pause};
use serde_json::json;

use super::Report;
use crate::args;
use crate::failure::Failure;
use crate::render::{Screen, inert, json, table};

pub(super) async fn pause(
    args: args::Pause,
    store: &dyn AdminStore,
    as_json: bool,
) -> Result<Report, Failure> {
    let pause = Pause { topic: args.topic, by: args.by, reason: args.reason };
    if args.dry_run {
        return foresee(pause.topic.as_ref(), true, store, as_json).await;
    }
    let is_new = store.pause(&pause).await?;
    let topic = pause.topic.as_ref();
    Ok(Report::data(match is_new {
        _ if as_json => json::document(&json!({ "topic": topic, "already_paused": !is_new })),
        true => format!("Paused {}.\n", what(topic)),
        false => format!("{} was paused already.\n", capital(&what(topic))),
    }))
}

pub(super) async fn resume(
    args: &args::Resume,
    store: &dyn AdminStore,
    as_json: bool,
) -> Result<Report, Failure> {
    let topic = args.topic.as_ref();
    if args.dry_run {
        return foresee(topic, false, store, as_json).await;
    }
    let was_paused = store.resume(topic).await?;
    let report = Report::data(match was_paused {
        _ if as_json => json::document(&json!({ "topic": topic, "was_paused": was_paused })),
        true => format!("Resumed {}.\n", what(topic)),
        false => format!("{} was not paused.\n", capital(&what(topic))),
    });
    Ok(match store.pauses().await?.len() {
        0 => report,
        left => report.note(format!("Pauses in force: {left}; `postroom pauses` shows them.")),
    })
}

/// Says what a pause, or its end, would change.
async fn foresee(
    topic: Option<&Topic>,
    pausing: bool,
    store: &dyn AdminStore,
    as_json: bool,
) -> Result<Report, Failure> {
    let pauses = store.pauses().await?;
    let paused = pauses.iter().any(|pause| pause.topic.as_deref() == topic.map(Topic::as_str));
    let name = if pausing { "already_paused" } else { "was_paused" };
    let report = Report::data(match (pausing, paused) {
        _ if as_json => json::document(&json!({ "topic": topic, name: paused, "dry_run": true })),
        (true, false) => format!("Would pause {}.\n", what(topic)),
        (true, true) => format!("{} is paused already.\n", capital(&what(topic))),
        (false, true) => format!("Would resume {}.\n", what(topic)),
        (false, false) => format!("{} is not paused.\n", capital(&what(topic))),
    });
    Ok(report.note("Nothing was changed: this was a dry run."))
}

pub(super) async fn pauses(
    store: &dyn AdminStore,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let pauses = store.pauses().await?;
    if as_json {
        let all: Vec<_> = pauses.iter().map(json::Pause::new).collect();
        return Ok(Report::data(json::document(&all)));
    }
    Ok(match pauses.is_empty() {
        true => Report::default().note("Nothing is paused."),
        false => Report::data(table::pauses(&pauses, screen)),
    })
}

fn what(topic: Option<&Topic>) -> String {
    topic.map_or_else(
        || "the whole queue".to_owned(),
        |topic| format!("topic {}", inert(topic.as_str())),
    )
}

fn capital(text: &str) -> String {
    text.replacen('t', "T", 1)
}
