//! What people did, in words for the audit log.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{Act, Changed, List, Purge, Status};
use postroom_core::{MessageId, Timestamp, Topic};

use super::act::refusals;
use super::jobs::{Pace, Task};

/// Ids that are named; more are counted.
const MOST_NAMED: usize = 20;

pub(crate) fn ids(ids: &[MessageId]) -> String {
    let named: Vec<_> = ids.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    let more = ids.len() - named.len();
    match more {
        0 => named.join(" "),
        more => format!("{} and {more} more", named.join(" ")),
    }
}

pub(crate) fn topic(topic: Option<&Topic>) -> String {
    topic.map_or_else(|| "everything".to_owned(), |topic| format!("topic {topic}"))
}

pub(crate) fn changed(act: Act, changed: &Changed) -> String {
    outcome(act, changed.applied.len() as u64, &refusals(changed))
}

/// `3 replayed; not replayed: 2 done, 1 being handled`.
pub(crate) fn outcome(act: Act, applied: u64, refused: &BTreeMap<&'static str, u64>) -> String {
    let done = act.done();
    let mut text = format!("{applied} {done}");
    let parts: Vec<_> = refused.iter().map(|(why, count)| format!("{count} {why}")).collect();
    if !parts.is_empty() {
        let _ = write!(text, "; not {done}: {}", parts.join(", "));
    }
    text
}

pub(crate) fn task(task: &Task) -> String {
    match task {
        Task::Act { filter, pace: Pace { limit, rate }, .. } => {
            let most = limit.map_or_else(String::new, |limit| format!(", at most {limit}"));
            format!("all with {}{most}, {rate} per second", filter_words(filter))
        }
        Task::Purge(purge) => purge_words(purge),
    }
}

fn purge_words(purge: &Purge) -> String {
    let parts = [("done", purge.done), ("dead", purge.dead), ("keys", purge.keys)];
    let parts: Vec<_> = parts
        .into_iter()
        .filter_map(|(what, age)| Some(format!("{what} older than {} s", age?.as_secs())))
        .collect();
    parts.join(", ")
}

/// The filter as terms, each as it stands in a query.
pub(crate) fn filter_words(list: &List) -> String {
    let mut terms: Vec<String> = Vec::new();
    let mut term = |name: &str, value: Option<String>| {
        terms.extend(value.map(|value| format!("{name}={value}")));
    };
    term("status", list.status.map(|status| self::status(status).to_owned()));
    term("reason", list.reason.map(reason));
    term("topic", list.topic.clone());
    term("topic_prefix", list.topic_prefix.clone());
    term("tenant", list.tenant.clone());
    term("aggregate_type", list.aggregate_type.clone());
    term("aggregate_id", list.aggregate_id.clone());
    term("ordering_key", list.ordering_key.clone());
    term("since", list.since.map(time));
    term("until", list.until.map(time));
    term("error", list.error.as_ref().map(|error| format!("{error:?}")));
    term("min_attempts", list.min_attempts.map(|least| least.to_string()));
    term("before", list.before.map(|place| place.to_string()));
    terms.join(" ")
}

pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Leased => "leased",
        Status::Failed => "failed",
        Status::Done => "done",
        Status::Dead => "dead",
    }
}

/// The reason as one word, for programs.
pub(crate) fn reason(reason: DeadReason) -> String {
    reason.as_str().replace(' ', "_")
}

/// RFC 3339 in UTC with microseconds.
pub(crate) fn time(time: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(time.as_micros()) {
        Ok(time) => format!("{time:.6}"),
        // The last second that stores know is past the last one that jiff knows.
        Err(_) => "9999-12-31T23:59:59.000000Z".to_owned(),
    }
}
