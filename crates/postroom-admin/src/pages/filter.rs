//! A filter of messages as people write it: in a form, and in the address of a page.

use postroom_core::store::List;

use crate::api::input;
use crate::problem::Problem;

/// The names of the parameters, in the order of a link.
const NAMES: [&str; 12] = [
    "status",
    "topic",
    "tenant",
    "aggregate_type",
    "aggregate_id",
    "ordering_key",
    "within",
    "since",
    "until",
    "error",
    "min_attempts",
    "reason",
];

/// States to choose from.
pub(super) const STATUSES: [(&str, &str); 5] = [
    ("pending", "Pending"),
    ("leased", "In flight"),
    ("failed", "Retrying"),
    ("dead", "Dead"),
    ("done", "Done"),
];

/// Times to choose from.
pub(super) const SPANS: [(&str, &str); 5] = [
    ("15m", "Last 15 minutes"),
    ("1h", "Last hour"),
    ("24h", "Last 24 hours"),
    ("7d", "Last 7 days"),
    ("30d", "Last 30 days"),
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

    /// The same in the words of the API, which knows no stars.
    pub(super) fn for_api(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        for (name, value) in self.pairs() {
            pairs.push(match (name, value.strip_suffix('*')) {
                ("topic", Some("")) => continue,
                ("topic", Some(prefix)) => ("topic_prefix", prefix.to_owned()),
                ("since", _) if !self.get("within").is_empty() => continue,
                ("within", _) => ("since", value.to_owned()),
                ("since" | "until", _) => (name, in_utc(value)),
                _ => (name, value.to_owned()),
            });
        }
        pairs
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
    pub(super) fn list(&self) -> Result<List, Problem> {
        let mut asked = input::Filter::default();
        for (name, value) in self.for_api() {
            let field = match name {
                "status" => &mut asked.status,
                "topic" => &mut asked.topic,
                "topic_prefix" => &mut asked.topic_prefix,
                "tenant" => &mut asked.tenant,
                "aggregate_type" => &mut asked.aggregate_type,
                "aggregate_id" => &mut asked.aggregate_id,
                "ordering_key" => &mut asked.ordering_key,
                "since" => &mut asked.since,
                "until" => &mut asked.until,
                "error" => &mut asked.error,
                "reason" => &mut asked.reason,
                _ => {
                    asked.min_attempts = Some(attempts(&value)?);
                    continue;
                }
            };
            *field = Some(value);
        }
        asked.list()
    }
}

fn attempts(text: &str) -> Result<u32, Problem> {
    let told = |_| Problem::invalid(format!("min_attempts must be a number, got {text:?}"));
    text.parse().map_err(told)
}

/// A time without a zone is one of UTC, as everything on the pages.
fn in_utc(text: &str) -> String {
    match text.parse::<jiff::civil::DateTime>() {
        Ok(time) if text.parse::<jiff::Timestamp>().is_err() => format!("{time}Z"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::Timestamp;
    use postroom_core::store::Status;

    use super::super::frame::decoded;
    use super::*;

    fn filter(query: &str) -> Filter {
        Filter::of(&decoded(query))
    }

    #[test]
    fn adm_1_a_filter_survives_its_address() {
        let query = "status=dead&topic=order.%2A&ordering_key=a%26b&since=2026-03-01T12%3A00&x=1";
        let read = filter(query);
        let pairs: Vec<_> = read.pairs().into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        assert_eq!(Filter::of(&pairs), read);
        let list = read.list().expect("valid");
        assert_eq!(list.status, Some(Status::Dead));
        assert_eq!(list.topic_prefix.as_deref(), Some("order."));
        assert_eq!((list.topic, list.ordering_key.as_deref()), (None, Some("a&b")));
        assert_eq!(list.since, Some(Timestamp::from_micros(1_772_366_400_000_000)));
    }

    #[test]
    fn every_choice_means_something() {
        for (name, _) in STATUSES {
            assert!(filter(&format!("status={name}")).list().expect(name).status.is_some());
        }
        for (name, _) in SPANS {
            assert!(filter(&format!("within={name}")).list().expect(name).since.is_some());
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for query in ["status=odd", "min_attempts=x", "since=yesterday", "reason=bored"] {
            let problem = filter(query).list().expect_err(query);
            let (name, value) = query.split_once('=').expect("a pair");
            assert!(problem.message.contains(name) && problem.message.contains(value));
        }
        assert_eq!(filter("topic=&status=%20").list().expect("empty"), List::default());
    }
}
