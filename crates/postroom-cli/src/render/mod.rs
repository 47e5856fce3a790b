//! How things look: tables and texts for people, JSON for machines.
//!
//! Everything that comes from a database is shown inert: a topic with an escape sequence in it must
//! not command the reader's terminal.

pub(crate) mod detail;
pub(crate) mod json;
pub(crate) mod payload;
pub(crate) mod table;
pub(crate) mod time;

use clap::builder::styling::Style;
use postroom::Timestamp;
use postroom::lifecycle::State;
use postroom::store::Record;

use crate::args::ColorWhen;

/// What the output is shown on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Columns of the terminal; nothing when it is not one.
    pub(crate) width: Option<u16>,
    pub(crate) color: bool,
    /// What "ago" counts from.
    pub(crate) now: Timestamp,
}

impl Screen {
    pub(crate) fn of_stdout(color: ColorWhen) -> Self {
        Self {
            width: comfy_table::Table::new().width(),
            color: color.on_stdout(),
            now: Timestamp::host_now(),
        }
    }
}

/// The few styles there are.
pub(crate) mod style {
    use clap::builder::styling::{AnsiColor, Style};

    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    pub(crate) const MIND: Style = AnsiColor::Yellow.on_default().bold();
    pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
    pub(crate) const HEAD: Style = Style::new().bold();
    pub(crate) const DIM: Style = Style::new().dimmed();
}

/// The text in a style, or as it is.
pub(crate) fn paint(text: &str, style: Style, color: bool) -> String {
    if color { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// The text with its control characters written out.
pub(crate) fn inert(text: &str) -> String {
    keeping(text, &[])
}

/// The same, but lines and tabs stay.
pub(crate) fn inert_lines(text: &str) -> String {
    keeping(text, &['\n', '\t'])
}

fn keeping(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() || is_bidi(c)) && !kept.contains(&c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Characters that turn the direction of what follows.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `1 message`, `1,234 messages`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(n))
}

/// `1,234,567`.
pub(crate) fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The word for where a message is: the one by which `list --status` finds it.
pub(crate) fn status(record: &Record) -> &'static str {
    match record.state {
        State::Ready if record.attempts > 0 => "failed",
        State::Ready => "pending",
        State::Leased => "leased",
        State::Done => "done",
        State::Dead => "dead",
    }
}

/// What comes next for a message, or how it ended.
pub(crate) fn outlook(record: &Record, now: Timestamp) -> String {
    let relative = |time: Timestamp| time::relative(time, now);
    let word = if record.attempts > 0 { "retry" } else { "due" };
    match (record.state, record.next_attempt_at, record.locked_until) {
        (State::Ready, Some(next), _) if next > now => format!("{word} {}", relative(next)),
        (State::Ready, _, _) => format!("{word} now"),
        (State::Leased, _, Some(end)) if end > now => format!("lease ends {}", relative(end)),
        (State::Leased, _, Some(end)) => format!("lease ended {}", relative(end)),
        (State::Leased, _, None) => "leased".to_owned(),
        (State::Done, _, _) => ended("done", record, now),
        (State::Dead, _, _) => {
            ended(record.reason.map_or("dead", |reason| reason.as_str()), record, now)
        }
    }
}

fn ended(how: &str, record: &Record, now: Timestamp) -> String {
    match record.processed_at {
        Some(at) => format!("{how} {}", time::relative(at, now)),
        None => how.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use postroom::lifecycle::DeadReason;
    use postroom::{Message, MessageId, OwnerToken, WorkId};
    use serde_json::json;

    use super::*;

    /// 2026-11-15 14:00:00 UTC.
    pub(crate) fn now() -> Timestamp {
        Timestamp::from_micros(1_794_751_200_000_000)
    }

    pub(crate) fn screen(width: Option<u16>) -> Screen {
        Screen { width, color: false, now: now() }
    }

    pub(crate) fn owner() -> OwnerToken {
        "11111111-2222-4333-8444-555555555555".parse().expect("a UUID")
    }

    pub(crate) fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// A message that was written two minutes ago and waits for nothing.
    pub(crate) fn record() -> Record {
        let id: MessageId = "019a8a00-0000-7000-8000-000000000001".parse().expect("a UUID");
        let message = Message::builder("order.placed")
            .id(id)
            .json(&json!({"order": 7}))
            .header("source", "shop")
            .tenant_id("acme")
            .aggregate("order", "7")
            .ordering_key("order/7")
            .build()
            .expect("legal");
        Record {
            payload_bytes: message.payload().len() as u64,
            message: Some(message),
            id,
            work: WorkId::new(12),
            topic: "order.placed".into(),
            tenant_id: Some("acme".into()),
            state: State::Ready,
            reason: None,
            created_at: now().saturating_sub(seconds(120)),
            attempts: 0,
            lost: 0,
            next_attempt_at: None,
            locked_until: None,
            owner: None,
            last_error: None,
            processed_at: None,
            processed_by: None,
        }
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(inert("a\u{1b}[2Jb\n\u{202e}"), "a\\u{1b}[2Jb\\n\\u{202e}");
        assert_eq!(inert_lines("a\n\tb\r"), "a\n\tb\\r");
        assert_eq!(inert("Grüße 東京"), "Grüße 東京");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!((count(1, "key"), count(2_000, "key")), ("1 key".into(), "2,000 keys".into()));
    }

    #[test]
    fn adm_1_the_status_is_the_word_that_finds_it() {
        let of = |state, attempts| status(&Record { state, attempts, ..record() });
        assert_eq!(of(State::Ready, 0), "pending");
        assert_eq!(of(State::Ready, 1), "failed");
        assert_eq!(of(State::Leased, 1), "leased");
        assert_eq!(of(State::Done, 1), "done");
        assert_eq!(of(State::Dead, 9), "dead");
    }

    #[test]
    fn the_outlook_says_what_comes_next() {
        let later = Some(now().saturating_add(seconds(90)));
        let before = Some(now().saturating_sub(seconds(5)));
        let base = record();
        for (record, expected) in [
            (Record { ..base.clone() }, "due now"),
            (Record { next_attempt_at: later, ..base.clone() }, "due in 1m30s"),
            (Record { next_attempt_at: later, attempts: 2, ..base.clone() }, "retry in 1m30s"),
            (
                Record { state: State::Leased, locked_until: later, ..base.clone() },
                "lease ends in 1m30s",
            ),
            (
                Record { state: State::Leased, locked_until: before, ..base.clone() },
                "lease ended 5s ago",
            ),
            (Record { state: State::Done, processed_at: before, ..base.clone() }, "done 5s ago"),
            (
                Record {
                    state: State::Dead,
                    reason: Some(DeadReason::Expired),
                    processed_at: before,
                    ..base.clone()
                },
                "expired 5s ago",
            ),
        ] {
            assert_eq!(outlook(&record, now()), expected);
        }
    }
}
