//! What goes wrong, grouped by what was said: a thousand failures are seldom a thousand causes.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::Timestamp;

use super::frame::{Ask, Frame, Place};
use super::words::{self, When};
use crate::desk::Desk;
use crate::desk::failures;
use crate::problem::Problem;

const MOST_GROUPS: usize = 50;

#[derive(Template)]
#[template(path = "failures.html")]
struct Failures {
    frame: Frame,
    groups: Vec<Group>,
    more: usize,
    looked_at: String,
}

struct Group {
    number: String,
    said: String,
    class: &'static str,
    state: String,
    topic: String,
    last: When,
    example: String,
    href: String,
    replay: Option<String>,
}

pub(super) async fn failures(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Failures, "Failures");
    let now = Timestamp::host_now();
    let failing = sample.seen.as_ref().map_or(&[][..], |seen| &seen.failing);
    let groups = failures::groups(failing);
    let page = Failures {
        groups: groups.iter().take(MOST_GROUPS).map(|group| row(group, &frame, now)).collect(),
        more: groups.len().saturating_sub(MOST_GROUPS),
        looked_at: words::many(failing.len() as u64, "failing message", "failing messages"),
        frame,
    };
    ask.show(&page)
}

fn row(group: &failures::Group, frame: &Frame, now: Timestamp) -> Group {
    let common = fixed_part(&group.pattern);
    let status = if group.reason.is_some() { "dead" } else { "failed" };
    let mut pairs = vec![("status", status), ("topic", group.topic.as_str()), ("error", common)];
    let href = frame.with("/messages", &pairs);
    pairs.push(("act", "replay"));
    let can_replay = frame.may_operate && group.reason.is_some();
    Group {
        number: words::count(group.count),
        said: group.error.clone().unwrap_or_else(|| "no error was given".to_owned()),
        class: if group.reason.is_some() { "bad" } else { "warn" },
        state: group.reason.map_or("retrying".to_owned(), |why| format!("dead: {}", why.as_str())),
        topic: group.topic.clone(),
        last: When::new(group.last, now),
        example: frame.message(&group.example),
        href,
        replay: can_replay.then(|| frame.with("/plan", &pairs)),
    }
}

/// The longest stretch of a pattern that does not differ, so that a search finds all of them.
fn fixed_part(pattern: &str) -> &str {
    let mut parts = vec![pattern];
    for stand_in in ["<id>", "<n>", "<hex>", "<text>", "<query>"] {
        parts = parts.into_iter().flat_map(|part| part.split(stand_in)).collect();
    }
    let longest = parts.into_iter().map(str::trim).max_by_key(|part| part.len());
    longest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failures_have_in_common_is_in_each_of_them() {
        for error in ["order 7 timed out after 30s", "ü 1 straße", "", "7", "card declined"] {
            let common = fixed_part(&failures::pattern(error)).to_owned();
            assert!(error.contains(&common), "{common:?}");
        }
        assert_eq!(fixed_part("order <n> timed out after <n>"), "timed out after");
    }
}
