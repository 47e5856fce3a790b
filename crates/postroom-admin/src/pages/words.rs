//! Numbers, times and sizes as people read them.

use std::fmt::Write as _;
use std::time::Duration;

use askama::Template;
use askama::filters::HtmlSafe;
use postroom_core::Timestamp;

/// With separators: `12,345`.
pub(super) fn count(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 message`, `2 messages`.
pub(super) fn many(number: impl Into<u64>, one: &str, several: &str) -> String {
    let number = number.into();
    format!("{} {}", count(number), if number == 1 { one } else { several })
}

/// Per second: `0`, `<0.1`, `3.4`, `120`.
pub(super) fn rate(per_second: f64) -> String {
    if per_second <= 0.0 {
        "0".into()
    } else if per_second < 0.05 {
        "<0.1".into()
    } else if per_second < 9.95 {
        format!("{per_second:.1}")
    } else {
        count(per_second.round() as u64)
    }
}

/// A share of one: `0 %`, `0.3 %`, `12 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent <= 0.0 {
        "0 %".into()
    } else if percent < 9.95 {
        format!("{:.1} %", percent.max(0.1))
    } else {
        format!("{percent:.0} %")
    }
}

/// `340 ms`, `4.2 s`, `3 min`, `2 h 5 min`, `3 d 4 h`.
pub(super) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() == 0 && !duration.is_zero() => {
            format!("{} µs", duration.as_micros())
        }
        0 => format!("{} ms", duration.as_millis()),
        1..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..600 => two(seconds / 60, "min", seconds % 60, "s"),
        600..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    let large = format!("{} {unit}", count(large));
    if small == 0 { large } else { format!("{large} {small} {small_unit}") }
}

/// `0 B`, `512 B`, `1.4 KiB`, `3.0 MiB`.
pub(super) fn bytes(number: u64) -> String {
    match number {
        0..1_024 => format!("{number} B"),
        1_024..1_048_576 => format!("{:.1} KiB", number as f64 / 1_024.0),
        _ => format!("{:.1} MiB", number as f64 / 1_048_576.0),
    }
}

/// In UTC, to the millisecond, for machines and for who looks twice.
pub(super) fn iso(at: Timestamp) -> String {
    civil(at, "%Y-%m-%dT%H:%M:%S%.3fZ")
}

/// The time of the day in UTC.
pub(super) fn hour(at: Timestamp) -> String {
    civil(at, "%H:%M:%S")
}

fn civil(at: Timestamp, format: &str) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros())
        .map(|at| at.strftime(format).to_string())
        .unwrap_or_default()
}

/// How far away a time is, in one unit.
fn distance(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.since(from).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", count(seconds / 86_400)),
    }
}

/// A time: relative to read, absolute on hover.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<time datetime="{{ iso }}" title="{{ title }}">{{ relative }}</time>"#,
    ext = "html"
)]
pub(super) struct When {
    iso: String,
    title: String,
    relative: String,
}

impl HtmlSafe for When {}

impl When {
    pub(super) fn new(at: Timestamp, now: Timestamp) -> Self {
        let relative = if at >= Timestamp::FAR_FUTURE {
            "never".to_owned()
        } else if at.since(now) >= Duration::from_secs(1) {
            format!("in {}", distance(now, at))
        } else if now.since(at) < Duration::from_secs(1) {
            "just now".to_owned()
        } else {
            format!("{} ago", distance(at, now))
        };
        Self { iso: iso(at), title: civil(at, "%Y-%m-%d %H:%M:%S%.3f UTC"), relative }
    }
}

/// Escapes what has a meaning of its own in a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// The last part of an id, where neighbours differ.
pub(super) fn short(id: impl ToString) -> String {
    let id = id.to_string();
    id.rsplit('-').next().map(ToOwned::to_owned).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        let shown: Vec<_> = [0u64, 7, 999, 1_000, 12_345, 1_234_567].map(count).into();
        assert_eq!(shown, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!(many(1u64, "message", "messages"), "1 message");
        assert_eq!(many(1_000u64, "message", "messages"), "1,000 messages");
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let shown = [0, 4, 59, 61, 600, 7_500, 90_000].map(|s| span(Duration::from_secs(s)));
        assert_eq!(shown, ["0 ms", "4.0 s", "59 s", "1 min 1 s", "10 min", "2 h 5 min", "1 d 1 h"]);
        assert_eq!(span(Duration::from_micros(250)), "250 µs");
    }

    #[test]
    fn rates_and_shares_keep_what_matters() {
        assert_eq!([0.0, 0.04, 3.44, 9.96, 1_234.4].map(rate), ["0", "<0.1", "3.4", "10", "1,234"]);
        assert_eq!([0.0, 0.0001, 0.034, 0.5].map(percent), ["0 %", "0.1 %", "3.4 %", "50 %"]);
    }

    #[test]
    fn adm_2_times_are_relative_with_the_absolute_one_on_hover() {
        let now = Timestamp::from_micros(1_700_000_000_123_456);
        let then = now.saturating_sub(Duration::from_secs(200));
        let html = When::new(then, now).to_string();
        assert_eq!(
            html,
            "<time datetime=\"2023-11-14T22:10:00.123Z\" \
             title=\"2023-11-14 22:10:00.123 UTC\">3 min ago</time>"
        );
        assert!(When::new(now, then).to_string().contains(">in 3 min<"));
        assert!(When::new(now, now).to_string().contains(">just now<"));
        assert!(When::new(Timestamp::FAR_FUTURE, now).to_string().contains(">never<"));
    }

    #[test]
    fn nothing_special_survives_in_a_query() {
        assert_eq!(encoded("a b&c=<d>/ü"), "a%20b%26c%3D%3Cd%3E%2F%C3%BC");
    }
}
