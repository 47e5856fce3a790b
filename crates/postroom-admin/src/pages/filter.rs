//! A filter of messages as people write it: in a form, and in the address of a page.

use std::time::Duration;

use postroom_core::Timestamp;
use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{List, Status};

use crate::problem::Problem;

/// The names of the parameters, in the order of a link.
const NAMES: [&str; 12] = [
    "status",
    "topic",
    "tenant",
    "aggregate_type",
    "aggregate_id",
    "key",
    "within",
    "since",
    "until",
    "error",
    "attempts",
    "reason",
];

/// States to choose from.
pub(super) const STATUSES: [(&str, &str, Status); 5] = [
    ("pending", "Pending", Status::Pending),
    ("leased", "In flight", Status::Leased),
    ("failed", "Retrying", Status::Failed),
    ("dead", "Dead", Status::Dead),
    ("done", "Done", Status::Done),
];

/// Times to choose from, in seconds.
pub(super) const SPANS: [(&str, &str, u64); 5] = [
    ("15m", "Last 15 minutes", 15 * 60),
    ("1h", "Last hour", 3_600),
    ("24h", "Last 24 hours", 86_400),
    ("7d", "Last 7 days", 7 * 86_400),
    ("30d", "Last 30 days", 30 * 86_400),
];

/// Reasons to choose from.
pub(super) const REASONS: [(&str, DeadReason); 6] = [
    ("attempts", DeadReason::Attempts),
    ("permanent", DeadReason::Permanent),
    ("lost_leases", DeadReason::LostLeases),
    ("expired", DeadReason::Expired),
    ("undecodable", DeadReason::Undecodable),
    ("discarded", DeadReason::Discarded),
];

/// What a person wrote, as they wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter(Vec<(&'static str, String)>);

impl Filter {
    pub(super) fn of(query: &[(String, String)]) -> Self {
        let value = |name: &str| {
            let mut values = query.iter().filter(|(key, _)| key == name);
            values.next().map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
        };
        let given = |name: &&'static str| value(name).map(|value| (*name, value.to_owned()));
        Self(NAMES.iter().filter_map(given).collect())
    }

    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.retain(|(key, _)| *key != name);
        if !value.is_empty() {
            self.0.push((name, value.to_owned()));
        }
        self
    }

    /// What was written for a parameter, or nothing.
    pub(super) fn get(&self, name: &str) -> &str {
        let mut pairs = self.0.iter().filter(|(key, _)| *key == name);
        pairs.next().map_or("", |(_, value)| value)
    }

    pub(super) fn pairs(&self) -> Vec<(&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Whether it says more than a status.
    pub(super) fn is_narrow(&self) -> bool {
        self.0.iter().any(|(name, _)| *name != "status")
    }

    /// Whether it says something that stands behind "More filters".
    pub(super) fn is_detailed(&self) -> bool {
        let first = ["status", "topic", "error", "within"];
        self.0.iter().any(|(name, _)| !first.contains(name))
    }

    /// In words, for a page that asks whether this is meant.
    pub(super) fn words(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("{}: {value}", name.replace('_', " "))).collect()
    }

    /// What a store is asked.
    pub(super) fn list(&self, now: Timestamp) -> Result<List, Problem> {
        let text = |name| Some(self.get(name).to_owned()).filter(|value| !value.is_empty());
        let topic = text("topic");
        let prefix = topic.as_deref().and_then(|topic| topic.strip_suffix('*'));
        Ok(List {
            status: self.status()?,
            topic_prefix: prefix.filter(|prefix| !prefix.is_empty()).map(ToOwned::to_owned),
            topic: topic.clone().filter(|_| prefix.is_none()),
            tenant: text("tenant"),
            aggregate_type: text("aggregate_type"),
            aggregate_id: text("aggregate_id"),
            ordering_key: text("key"),
            since: self.since(now)?,
            until: time("until", self.get("until"))?,
            error: text("error"),
            min_attempts: self.attempts()?,
            reason: self.reason()?,
            ..List::default()
        })
    }

    fn status(&self) -> Result<Option<Status>, Problem> {
        choice(self.get("status"), "status", STATUSES.map(|(name, _, status)| (name, status)))
    }

    fn reason(&self) -> Result<Option<DeadReason>, Problem> {
        choice(self.get("reason"), "reason", REASONS)
    }

    fn since(&self, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
        let spans = SPANS.map(|(name, _, seconds)| (name, seconds));
        match choice(self.get("within"), "within", spans)? {
            Some(seconds) => Ok(Some(now.saturating_sub(Duration::from_secs(seconds)))),
            None => time("since", self.get("since")),
        }
    }

    fn attempts(&self) -> Result<Option<u32>, Problem> {
        match self.get("attempts") {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Problem::invalid(format!("attempts must be a number, got {text:?}"))),
        }
    }
}

fn choice<T: Copy, const N: usize>(
    text: &str,
    name: &str,
    among: [(&str, T); N],
) -> Result<Option<T>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let found = among.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.map(Some).ok_or_else(|| {
        let known = among.map(|(word, _)| word).join(", ");
        Problem::invalid(format!("{name} must be one of {known}; got {text:?}"))
    })
}

/// With or without a zone; UTC then, as everything on the pages.
fn time(name: &str, text: &str) -> Result<Option<Timestamp>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let civil = || text.parse::<jiff::civil::DateTime>().ok();
    let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        civil().and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC).ok()).map(|z| z.timestamp())
    });
    at.map(|at| Some(Timestamp::from_micros(at.as_microsecond()))).ok_or_else(|| {
        Problem::invalid(format!("{name} must be a time such as 2026-03-01T12:00, got {text:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::frame::decoded;
    use super::*;

    fn filter(query: &str) -> Filter {
        Filter::of(&decoded(query))
    }

    #[test]
    fn adm_1_a_filter_survives_its_address() {
        let query = "status=dead&topic=order.%2A&key=a%26b&since=2026-03-01T12%3A00&unknown=1";
        let read = filter(query);
        let pairs: Vec<_> = read.pairs().into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        assert_eq!(Filter::of(&pairs), read);
        let list = read.list(Timestamp::from_micros(0)).expect("valid");
        assert_eq!(list.status, Some(Status::Dead));
        assert_eq!(list.topic_prefix.as_deref(), Some("order."));
        assert_eq!((list.topic, list.ordering_key.as_deref()), (None, Some("a&b")));
        assert_eq!(list.since, Some(Timestamp::from_micros(1_772_366_400_000_000)));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let now = Timestamp::from_micros(0);
        for query in ["status=odd", "attempts=x", "since=yesterday", "reason=bored", "within=1y"] {
            let problem = filter(query).list(now).expect_err(query);
            let (name, value) = query.split_once('=').expect("a pair");
            assert!(problem.message.contains(name) && problem.message.contains(value));
        }
        assert_eq!(filter("topic=&status=%20").list(now).expect("empty"), List::default());
    }
}
