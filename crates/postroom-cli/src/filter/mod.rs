//! Which messages a command means: terms that all have to hold.
//!
//! What a store can look for is asked of it; the rest is compared here, record by record.

mod parse;

use std::time::Duration;

use postroom::lifecycle::DeadReason;
use postroom::store::{List, Record, Status};
use postroom::{Message, Timestamp};

pub(crate) use parse::{Problem, aggregate, parse, parse_reason, topics, when};

/// One thing that has to hold of a message. The `bool` of a comparison is false for `!=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Status(bool, Status),
    Topic(bool, Topics),
    Tenant(bool, String),
    Aggregate(bool, Aggregate),
    Key(bool, String),
    Reason(bool, DeadReason),
    /// Part of the last error.
    Error(String),
    Attempts(Bound, u32),
    Created(Side, When),
}

/// A topic, or the start of some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topics {
    Exactly(String),
    StartingWith(String),
}

/// A kind of aggregate, or one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Aggregate {
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    AtLeast,
    Exactly,
    Below,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Then or later.
    Since,
    Before,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    At(Timestamp),
    Ago(Duration),
}

impl When {
    fn of(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(age) => now.saturating_sub(age),
        }
    }
}

impl Topics {
    fn contain(&self, topic: &str) -> bool {
        match self {
            Self::Exactly(name) => name == topic,
            Self::StartingWith(start) => topic.starts_with(start),
        }
    }
}

impl Aggregate {
    fn is_of(&self, message: &Message) -> bool {
        let is = |have: Option<&dyn AsRef<str>>, wanted: &str| {
            have.is_some_and(|have| have.as_ref() == wanted)
        };
        is(message.aggregate_type().map(|kind| kind as _), &self.kind)
            && self.id.as_ref().is_none_or(|id| is(message.aggregate_id().map(|id| id as _), id))
    }
}

impl Term {
    /// Puts the term into the list, if there is a place for it that is free.
    fn ask(&self, list: &mut List, now: Timestamp) -> bool {
        fn put<T: Clone>(place: &mut Option<T>, value: &T) -> bool {
            let free = place.is_none();
            if free {
                *place = Some(value.clone());
            }
            free
        }
        match self {
            Self::Status(true, status) => put(&mut list.status, status),
            Self::Topic(true, Topics::Exactly(topic)) => put(&mut list.topic, topic),
            Self::Topic(true, Topics::StartingWith(start)) => put(&mut list.topic_prefix, start),
            Self::Tenant(true, tenant) => put(&mut list.tenant, tenant),
            Self::Aggregate(true, Aggregate { kind, id: None }) => {
                put(&mut list.aggregate_type, kind)
            }
            Self::Aggregate(true, Aggregate { kind, id: Some(id) }) => {
                put(&mut list.aggregate_id, id) && put(&mut list.aggregate_type, kind)
            }
            Self::Key(true, key) => put(&mut list.ordering_key, key),
            Self::Reason(true, reason) => put(&mut list.reason, reason),
            Self::Error(part) => put(&mut list.error, part),
            Self::Attempts(Bound::AtLeast, least) => put(&mut list.min_attempts, least),
            Self::Attempts(Bound::Exactly, n) => {
                // What has more is left out here.
                put(&mut list.min_attempts, n);
                false
            }
            Self::Created(Side::Since, when) => put(&mut list.since, &when.of(now)),
            Self::Created(Side::Before, when) => put(&mut list.until, &when.of(now)),
            _ => false,
        }
    }

    fn holds(&self, record: &Record, now: Timestamp) -> bool {
        let message = record.message.as_ref();
        match self {
            Self::Status(is, status) => status.contains(record) == *is,
            Self::Topic(is, topics) => topics.contain(&record.topic) == *is,
            Self::Tenant(is, tenant) => (record.tenant_id.as_ref() == Some(tenant)) == *is,
            Self::Aggregate(is, wanted) => message.is_some_and(|it| wanted.is_of(it)) == *is,
            Self::Key(is, key) => {
                let have = message.and_then(Message::ordering_key);
                have.is_some_and(|have| have.as_str() == key) == *is
            }
            Self::Reason(is, reason) => (record.reason == Some(*reason)) == *is,
            Self::Error(part) => {
                record.last_error.as_ref().is_some_and(|error| error.contains(part.as_str()))
            }
            Self::Attempts(Bound::AtLeast, least) => record.attempts >= *least,
            Self::Attempts(Bound::Exactly, n) => record.attempts == *n,
            Self::Attempts(Bound::Below, end) => record.attempts < *end,
            Self::Created(Side::Since, when) => record.created_at >= when.of(now),
            Self::Created(Side::Before, when) => record.created_at < when.of(now),
        }
    }
}

/// All that a command line says about which messages it means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) terms: Vec<Term>,
}

impl Filter {
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The status that it asks for.
    pub(crate) fn status(&self) -> Option<Status> {
        self.terms.iter().find_map(|term| match term {
            Term::Status(true, status) => Some(*status),
            _ => None,
        })
    }

    /// Whether it says anything about why a message is dead.
    pub(crate) fn names_a_reason(&self) -> bool {
        self.terms.iter().any(|term| matches!(term, Term::Reason(..)))
    }

    /// The search that finds them.
    pub(crate) fn search(&self, now: Timestamp) -> Search {
        let mut list = List::default();
        let here = self.terms.iter().filter(|term| !term.ask(&mut list, now)).cloned().collect();
        Search { list, here, now }
    }
}

/// A list to ask a store for, and what it can not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) list: List,
    here: Vec<Term>,
    now: Timestamp,
}

impl Search {
    pub(crate) fn keeps(&self, record: &Record) -> bool {
        self.here.iter().all(|term| term.holds(record, self.now))
    }
}

#[cfg(test)]
mod tests {
    use postroom::lifecycle::State;

    use super::*;
    use crate::render::tests::{now, record, seconds};

    fn filter(text: &str) -> Filter {
        Filter { terms: parse(text).expect(text) }
    }

    #[test]
    fn cli_1_what_a_store_can_look_for_is_asked_of_it() {
        let text = "status=dead and topic=order.* and tenant=acme and aggregate=order/7 and key=k \
                    and error~timeout and attempts>3 and age>1h and reason=expired";
        let search = filter(text).search(now());
        let expected = List {
            status: Some(Status::Dead),
            topic_prefix: Some("order.".into()),
            tenant: Some("acme".into()),
            aggregate_type: Some("order".into()),
            aggregate_id: Some("7".into()),
            ordering_key: Some("k".into()),
            error: Some("timeout".into()),
            min_attempts: Some(4),
            until: Some(now().saturating_sub(seconds(3_600))),
            reason: Some(DeadReason::Expired),
            ..List::default()
        };
        assert_eq!((search.list, search.here), (expected, vec![]));
    }

    #[test]
    fn cli_1_a_second_term_of_a_field_holds_too() {
        let search = filter("topic=a and topic=b").search(now());
        assert_eq!(search.list.topic.as_deref(), Some("a"));
        assert_eq!(search.here, [Term::Topic(true, Topics::Exactly("b".into()))]);
    }

    #[test]
    fn cli_1_each_term_means_what_it_says() {
        // Written two minutes ago by acme, of order/7, with the key order/7.
        let base = Record {
            state: State::Dead,
            reason: Some(DeadReason::Permanent),
            attempts: 3,
            last_error: Some("gateway timeout".into()),
            ..record()
        };
        for (term, expected) in [
            ("status=dead", true),
            ("status!=dead", false),
            ("status=pending", false),
            ("topic=order.placed", true),
            ("topic=order.*", true),
            ("topic=mail.*", false),
            ("topic!=order.*", false),
            ("topic!=mail", true),
            ("tenant=acme", true),
            ("tenant!=acme", false),
            ("aggregate=order/7", true),
            ("aggregate=order", true),
            ("aggregate=order/8", false),
            ("aggregate!=order/8", true),
            ("key=order/7", true),
            ("key!=order/7", false),
            ("error~timeout", true),
            ("error~'way time'", true),
            ("error~Timeout", false),
            ("attempts=3", true),
            ("attempts=2", false),
            ("attempts>2", true),
            ("attempts>3", false),
            ("attempts<4", true),
            ("attempts<3", false),
            ("age>1m", true),
            ("age<1m", false),
            ("age<3m", true),
            ("created>2026-11-15T13:57:00Z", true),
            ("created<2026-11-15T13:57:00Z", false),
            ("reason=permanent_error", true),
            ("reason!=permanent_error", false),
            ("reason!=discarded", true),
        ] {
            let terms = filter(term).terms;
            let holds = terms.iter().all(|term| term.holds(&base, now()));
            assert_eq!(holds, expected, "{term}");
        }
    }
}
