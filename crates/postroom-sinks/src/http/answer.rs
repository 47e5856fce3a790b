//! What an answer means.
//!
//! | status | meaning |
//! |---|---|
//! | 2xx | taken |
//! | 400, 410, 413, 414, 415, 422, 431 | never: the receiver refuses this very request |
//! | 429 | asked for time, 30 s if it does not say how much |
//! | 502, 503, 504 with `retry-after` | asked for time |
//! | all others, 3xx too | failed, and tried again |

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::fmt::rfc2822;
use postroom_core::Timestamp;
use reqwest::StatusCode;
use tokio::time::Instant;

use crate::fault::Fault;

const DEFAULT_WAIT: Duration = Duration::from_secs(30);
const SHORTEST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// How much of an answer is kept with an error, in characters.
const KEPT: usize = 200;
/// How much of it is looked through for secrets before, in bytes.
const LOOKED_THROUGH: usize = 8 * 1024;

/// What the receiver said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) retry_after: Option<String>,
    /// The host that it leads to.
    pub(super) location: Option<String>,
    /// The beginning of the body, fit to be shown.
    pub(super) body: String,
}

impl Answer {
    /// Why the message was not taken, if so.
    pub(super) fn fault(&self) -> Option<Fault> {
        let wait = self.retry_after.as_deref().and_then(|text| wait(text, Timestamp::host_now()));
        match (self.status.as_u16(), wait) {
            (200..300, _) => None,
            (400 | 410 | 413 | 414 | 415 | 422 | 431, _) => Some(Fault::Permanent(self.why())),
            (429, wait) => {
                let after = wait.unwrap_or(DEFAULT_WAIT);
                Some(Fault::Throttled { after, why: self.why() })
            }
            (502..=504, Some(after)) => Some(Fault::Throttled { after, why: self.why() }),
            _ => Some(Fault::Transient(self.why())),
        }
    }

    fn why(&self) -> String {
        let mut why = format!("answered {}", self.status.as_u16());
        if let Some(reason) = self.status.canonical_reason() {
            why.push_str(&format!(" {reason}"));
        }
        if self.status.is_redirection() {
            let host = self.location.as_deref().unwrap_or("?");
            why.push_str(&format!(", to {host}: redirects are not followed"));
        }
        if !self.body.is_empty() {
            why.push_str(": ");
            why.push_str(&self.body);
        }
        why
    }
}

/// How long to wait by a `retry-after`, in seconds or as a date.
fn wait(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        // Digits that are too many are a time that is too long.
        true => Duration::from_secs(text.parse().unwrap_or(u64::MAX)),
        false => {
            let dates = rfc2822::DateTimeParser::new().relaxed_weekday(true);
            let date = dates.parse_timestamp(text).ok()?;
            Timestamp::from_micros(date.as_microsecond()).since(now)
        }
    };
    Some(wait.clamp(SHORTEST_WAIT, LONGEST_WAIT))
}

/// Puts the beginning of a body by, and forgets the rest.
pub(super) fn keep(body: &mut Vec<u8>, chunk: &[u8]) {
    let room = LOOKED_THROUGH.saturating_sub(body.len());
    body.extend_from_slice(&chunk[..chunk.len().min(room)]);
}

/// The first characters of a text from outside, on one line.
pub(super) fn text(text: &str) -> String {
    let text = text.trim();
    let mut shown = String::new();
    for c in text.chars().take(KEPT) {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    if text.chars().nth(KEPT).is_some() {
        shown.push('…');
    }
    shown
}

/// The time that a receiver asked for by 429, which is about all that is sent to it.
#[derive(Debug, Default)]
pub(super) struct Pause(Mutex<Option<(Instant, String)>>);

impl Pause {
    /// Whether something may be sent now.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((until, why)) = &*asked else { return Ok(()) };
        let after = until.saturating_duration_since(Instant::now());
        if after.is_zero() {
            *asked = None;
            return Ok(());
        }
        Err(Fault::Throttled { after, why: why.clone() })
    }

    pub(super) fn ask(&self, after: Duration, why: &str) {
        let until = Instant::now() + after;
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.as_ref().is_none_or(|(before, _)| *before < until) {
            *asked = Some((until, why.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f31_retry_after_is_seconds_or_a_date_and_has_bounds() {
        let now = Timestamp::from_micros(784_111_777_000_000);
        let seconds = |text| wait(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 7 "), Some(7));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:00:00 GMT"), Some(1), "in the past");
        assert_eq!(seconds("0"), Some(1));
        assert_eq!(seconds("86400"), Some(3_600));
        assert_eq!(seconds("99999999999999999999999999"), Some(3_600));
        for text in ["", "soon", "-5", "1.5", "Sun, 99 Nov 1994 08:50:07 GMT"] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }

    #[test]
    fn x12_what_is_kept_of_a_body_is_short_and_on_one_line() {
        assert_eq!(text(" no\r\n\x1b[31m\x00é "), "no\\r\\n\\u{1b}[31m\\u{0}é");
        let long = text(&"é".repeat(500));
        assert_eq!(long.chars().count(), KEPT + 1);
        let mut body = Vec::new();
        for _ in 0..1_000 {
            keep(&mut body, &[b'x'; 1_000]);
        }
        assert_eq!(body.len(), LOOKED_THROUGH);
    }

    #[tokio::test(start_paused = true)]
    async fn f31_the_longest_time_that_was_asked_for_counts() {
        let pause = Pause::default();
        pause.check().expect("nothing was asked");
        pause.ask(Duration::from_secs(60), "a");
        pause.ask(Duration::from_secs(5), "b");
        tokio::time::advance(Duration::from_secs(59)).await;
        let left = Fault::Throttled { after: Duration::from_secs(1), why: "a".to_owned() };
        assert_eq!(pause.check(), Err(left));
        tokio::time::advance(Duration::from_secs(1)).await;
        pause.check().expect("it is over");
    }
}
