//! What a person should look at. The limits are those of health: what is red here is what
//! `/readyz` complains about.

use postroom_core::store::Block;

use super::list::capital;
use super::words;
use crate::health::{Check, Limit, Status, Thresholds};
use crate::sampler::{Sample, Seen};

const MOST: usize = 12;

/// Something that a person should look at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attention {
    pub(super) class: &'static str,
    pub(super) what: String,
    pub(super) more: String,
    /// A path, and what is there.
    pub(super) link: Option<(String, &'static str)>,
}

/// Worst first: what health judges, and what waits for a person whatever the limits are.
pub(super) fn of(sample: &Sample, checks: &[Check], limits: &Thresholds) -> Vec<Attention> {
    let mut found: Vec<_> =
        checks.iter().filter_map(|check| judged(check, sample, limits)).collect();
    // What was seen before it went away says nothing about now.
    let answers = class_of(checks, "database").is_empty();
    if let Some(seen) = sample.seen.as_ref().filter(|_| answers) {
        found.extend(waits(seen, checks));
    }
    found.sort_by_key(|item| item.class != "bad");
    found.truncate(MOST);
    found
}

/// How bad something is, as health says.
fn class(status: Status) -> &'static str {
    match status {
        Status::Healthy => "",
        Status::Degraded => "warn",
        Status::Unhealthy => "bad",
    }
}

pub(super) fn class_of(checks: &[Check], name: &str) -> &'static str {
    checks.iter().find(|check| check.name == name).map_or("", |check| class(check.status))
}

/// A check in the words of a page, with the limit that it broke and the way to it.
fn judged(check: &Check, sample: &Sample, limits: &Thresholds) -> Option<Attention> {
    if check.status == Status::Healthy {
        return None;
    }
    let status = check.status;
    let stats = sample.seen.as_ref().map(|seen| seen.stats).unwrap_or_default();
    let (what, more, link) = match check.name {
        "database" => (
            format!("The database {}", check.message),
            "Figures come back by themselves. What was committed is safe.".to_owned(),
            None,
        ),
        "backlog" => (
            format!("{} wait", words::many(stats.ready + stats.leased, "message", "messages")),
            beyond(status, &limits.backlog, words::count),
            Some(("/messages?status=pending", "What is pending")),
        ),
        "oldest" => (
            format!(
                "The oldest message has waited for {}",
                words::span(stats.oldest_ready.unwrap_or_default())
            ),
            beyond(status, &limits.oldest, words::span),
            Some(("/messages?status=pending", "What is pending")),
        ),
        "failures" => (
            format!("{} of deliveries fail", words::percent(failing(sample))),
            beyond(status, &limits.failure_ratio, words::percent),
            Some(("/failures", "Failures")),
        ),
        "dispatcher" => (
            "No dispatcher is running".to_owned(),
            format!("{}. Start one, such as `postroom up`.", capital(&check.message)),
            Some(("/dispatchers", "Dispatchers")),
        ),
        "wakes" => (
            "New messages are found by polling only".to_owned(),
            check.message.clone(),
            Some(("/stores", "Stores")),
        ),
        "sink" => {
            let more = "Its messages wait until it is back.".to_owned();
            (format!("{} {}", check.of, check.message), more, None)
        }
        // Dead letters are told with or without a limit.
        _ => return None,
    };
    let link = link.map(|(path, label)| (path.to_owned(), label));
    Some(Attention { class: class(status), what, more, link })
}

/// The limit that was broken.
fn beyond<T: Copy>(status: Status, limit: &Limit<T>, shown: impl Fn(T) -> String) -> String {
    let broken = if status == Status::Unhealthy { limit.unhealthy } else { limit.degraded };
    broken.map_or_else(String::new, |limit| {
        format!("More than {} counts as {}.", shown(limit), status.as_str())
    })
}

/// The share of deliveries that failed, as health looks at it.
pub(super) fn failing(sample: &Sample) -> f64 {
    sample.snapshot.five_minutes.failure_ratio
}

/// What somebody stopped, and what stands still until somebody comes.
fn waits(seen: &Seen, checks: &[Check]) -> Vec<Attention> {
    let item = |class, what: String, more: &str, link: (&str, &'static str)| Attention {
        class,
        what,
        more: more.to_owned(),
        link: Some((link.0.to_owned(), link.1)),
    };
    let mut found = Vec::new();
    let dead = seen.dead_letters();
    if dead > 0 {
        let what = words::many(dead, "dead letter", "dead letters");
        let more = "They are not tried again until somebody replays them.";
        let class = if class_of(checks, "dead") == "bad" { "bad" } else { "warn" };
        found.push(item(class, what, more, ("/dead", "Look at them")));
    }
    for pause in &seen.pauses {
        let what = match &pause.topic {
            Some(topic) => format!("{topic} is paused"),
            None => "The whole queue is paused".to_owned(),
        };
        let more = pause.reason.as_deref().unwrap_or("Nothing of it is delivered.");
        found.push(item("warn", what, more, ("/topics", "Topics")));
    }
    if !seen.blocked.is_empty() {
        let halted = seen.blocked.iter().filter(|key| key.block == Block::Halted).count();
        let what =
            words::many(seen.blocked.len() as u64, "ordering key stands", "ordering keys stand");
        let more = match halted {
            0 => "Their first messages wait for a retry.".to_owned(),
            1 => "One of them is halted until a dead letter is replayed or discarded.".to_owned(),
            halted => format!("{halted} are halted until dead letters are replayed or discarded."),
        };
        found.push(item("warn", format!("{what} still"), &more, ("/keys", "Ordering keys")));
    }
    found
}
