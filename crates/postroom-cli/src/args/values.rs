//! Values on the command line: how people write them, and what they mean.

use std::io::IsTerminal as _;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;
use postroom::store::Status;
use postroom::{Queue, Topic};

/// A box by the name that people type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueName {
    Outbox,
    Inbox,
}

impl From<QueueName> for Queue {
    fn from(name: QueueName) -> Self {
        match name {
            QueueName::Outbox => Self::Outbox,
            QueueName::Inbox => Self::Inbox,
        }
    }
}

/// A status by the name that people type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusName {
    /// Not delivered yet, whether due or waiting; includes failed
    Pending,
    /// Somebody holds it
    Leased,
    /// Had a bad attempt and will be tried again
    Failed,
    /// Delivered
    Done,
    /// Will not be tried again by itself
    Dead,
}

impl From<StatusName> for Status {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::Pending => Self::Pending,
            StatusName::Leased => Self::Leased,
            StatusName::Failed => Self::Failed,
            StatusName::Done => Self::Done,
            StatusName::Dead => Self::Dead,
        }
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    Auto,
    Always,
    Never,
}

impl ColorWhen {
    pub(crate) fn on_stdout(self) -> bool {
        self.decide(std::io::stdout().is_terminal())
    }

    pub(crate) fn on_stderr(self) -> bool {
        self.decide(std::io::stderr().is_terminal())
    }

    fn decide(self, terminal: bool) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                // Any value but the empty one counts; see no-color.org.
                terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            }
        }
    }
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as source=shop")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn aggregate(text: &str) -> Result<(String, String), String> {
    let (kind, id) = text.split_once('/').ok_or("expected TYPE/ID, such as order/7")?;
    Ok((kind.to_owned(), id.to_owned()))
}

pub(super) fn topic(text: &str) -> Result<Topic, String> {
    Topic::new(text).map_err(|error| error.to_string())
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = "expected a duration such as 10s, 1h30m or 7d";
    let span: jiff::Span = text.parse().map_err(|error| format!("{expected} ({error})"))?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let signed = span.to_duration(days).map_err(|error| format!("{expected} ({error})"))?;
    signed.try_into().map_err(|_| "a duration can not be negative".to_owned())
}

pub(crate) fn time(text: &str) -> Result<SystemTime, String> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(Into::into).map_err(|error| {
        format!("expected a time with its offset, such as 2030-01-31T08:00:00Z ({error})")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_what_people_type() {
        for (text, seconds) in [("10s", 10), ("1h30m", 5_400), ("7d", 604_800), ("1w", 604_800)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "10", "-5s", "1 month", "soon"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_need_an_offset() {
        assert!(time("2030-01-31T08:00:00+01:00").is_ok());
        let error = time("2030-01-31T08:00:00").expect_err("no offset");
        assert!(error.starts_with("expected a time with its offset"), "{error}");
    }

    #[test]
    fn only_the_first_separator_counts() {
        assert_eq!(aggregate("order/7/a"), Ok(("order".into(), "7/a".into())));
        assert_eq!(pair("q=a=b"), Ok(("q".into(), "a=b".into())));
    }
}
