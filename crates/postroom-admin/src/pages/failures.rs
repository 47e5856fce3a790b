//! What goes wrong, grouped by what was said: a thousand failures are seldom a thousand causes.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::Timestamp;
use postroom_core::store::Failing;

use super::frame::{Ask, Frame, Place};
use super::words::{self, When};
use crate::desk::Desk;
use crate::problem::Problem;

const MOST_GROUPS: usize = 50;
const MOST_TOPICS: usize = 4;
/// The part of an error by which it is known.
const KNOWN_BY: usize = 200;

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
    dead: u64,
    retrying: u64,
    topics: Vec<String>,
    last: When,
    example: String,
    href: String,
    replay: Option<String>,
}

/// Failures with the same text, but for numbers and ids.
#[derive(Debug)]
struct Cause<'a> {
    newest: &'a Failing,
    dead: u64,
    retrying: u64,
    topics: BTreeMap<&'a str, u64>,
    /// What all of them have in common, for a filter.
    common: String,
}

pub(super) async fn failures(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = ask.queue(&desk)?;
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Failures, "Failures");
    let now = Timestamp::host_now();
    let failing = sample.seen.as_ref().map_or(&[][..], |seen| &seen.failing);
    let causes = causes(failing);
    let page = Failures {
        groups: causes.iter().take(MOST_GROUPS).map(|c| group(c, &frame, now)).collect(),
        more: causes.len().saturating_sub(MOST_GROUPS),
        looked_at: words::many(failing.len() as u64, "failing message", "failing messages"),
        frame,
    };
    ask.show(&page)
}

fn group(cause: &Cause<'_>, frame: &Frame, now: Timestamp) -> Group {
    let status = if cause.dead > 0 { "dead" } else { "failed" };
    let mut pairs = vec![("status", status), ("error", cause.common.as_str())];
    if let [only] = cause.topics.keys().collect::<Vec<_>>()[..] {
        pairs.push(("topic", only));
    }
    let href = frame.with("/messages", &pairs);
    pairs.push(("act", "replay"));
    let can_replay = frame.may_operate && cause.dead > 0 && !cause.common.is_empty();
    let mut topics: Vec<_> = cause.topics.iter().map(|(topic, number)| (*number, *topic)).collect();
    topics.sort_unstable_by(|a, b| b.cmp(a));
    let more = topics.len().saturating_sub(MOST_TOPICS);
    let mut topics: Vec<_> =
        topics.iter().take(MOST_TOPICS).map(|(_, topic)| (*topic).to_owned()).collect();
    if more > 0 {
        topics.push(format!("and {more} more"));
    }
    Group {
        number: words::count(cause.dead + cause.retrying),
        said: cause.newest.error.clone().unwrap_or_else(|| "no error was given".to_owned()),
        dead: cause.dead,
        retrying: cause.retrying,
        topics,
        last: When::new(cause.newest.at, now),
        example: frame.message(&cause.newest.id),
        href,
        replay: can_replay.then(|| frame.with("/plan", &pairs)),
    }
}

/// The causes of failures, those of most first.
fn causes(failing: &[Failing]) -> Vec<Cause<'_>> {
    let mut causes: BTreeMap<String, Cause<'_>> = BTreeMap::new();
    for one in failing {
        let error = one.error.as_deref().unwrap_or_default();
        let cause = causes.entry(pattern(error)).or_insert_with(|| Cause {
            newest: one,
            dead: 0,
            retrying: 0,
            topics: BTreeMap::new(),
            common: fixed_part(error),
        });
        match one.reason {
            Some(_) => cause.dead += 1,
            None => cause.retrying += 1,
        }
        *cause.topics.entry(&one.topic).or_default() += 1;
        if one.at > cause.newest.at {
            cause.newest = one;
        }
    }
    let mut causes: Vec<_> = causes.into_values().collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.dead + cause.retrying));
    causes
}

/// The error without what differs from one message to the next.
fn pattern(error: &str) -> String {
    words_of(error).map(|word| if is_variable(word) { "#" } else { word }).collect()
}

/// The longest stretch of the error that does not differ, so that a search finds all of them.
fn fixed_part(error: &str) -> String {
    let mut longest = String::new();
    let mut current = String::new();
    for word in words_of(error) {
        if is_variable(word) || word == "\n" {
            current.clear();
        } else {
            current.push_str(word);
        }
        if current.trim().len() > longest.len() {
            current.trim().clone_into(&mut longest);
        }
    }
    longest
}

/// Runs of letters, digits and dashes, and what stands between them.
fn words_of(error: &str) -> impl Iterator<Item = &str> {
    let end = error.char_indices().nth(KNOWN_BY).map_or(error.len(), |(end, _)| end);
    let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    error[..end].split_inclusive(move |c| !inside(c)).flat_map(move |piece| {
        let cut = piece.char_indices().last().filter(|(_, c)| !inside(*c)).map(|(at, _)| at);
        let (word, rest) = piece.split_at(cut.unwrap_or(piece.len()));
        [word, rest].into_iter().filter(|part| !part.is_empty())
    })
}

fn is_variable(word: &str) -> bool {
    word.chars().any(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use postroom_core::MessageId;
    use postroom_core::lifecycle::DeadReason;

    use super::*;

    fn failing(error: &str, reason: Option<DeadReason>, second: u64) -> Failing {
        Failing {
            id: MessageId::new(),
            topic: "order.placed".into(),
            reason,
            attempts: 1,
            error: Some(error.into()),
            at: Timestamp::from_micros(0).saturating_add(Duration::from_secs(second)),
        }
    }

    #[test]
    fn failures_that_differ_by_numbers_and_ids_are_one_cause() {
        let all = [
            failing("order 7 timed out after 30s (req-01ab)", None, 1),
            failing("order 8123 timed out after 31s (req-77cd)", Some(DeadReason::Attempts), 5),
            failing("card declined", None, 3),
        ];
        let found = causes(&all);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].dead, found[0].retrying), (1, 1));
        assert_eq!(found[0].newest.id, all[1].id);
        assert_eq!(found[0].common, "timed out after");
        assert_eq!(found[1].common, "card declined");
    }

    #[test]
    fn the_fixed_part_of_an_error_is_in_each_of_its_group() {
        for error in ["ü 1 straße 2", "", "7", "a\nb 3", "x".repeat(5_000).as_str()] {
            let common = fixed_part(error);
            assert!(error.contains(&common), "{common:?}");
            assert!(pattern(error).contains(&common));
        }
    }
}
