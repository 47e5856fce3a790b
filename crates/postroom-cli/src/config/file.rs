//! What stands in a configuration file.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use postroom::store::Purge;
use postroom::{Backoff, DispatcherConfig, Queue, Retry, StoreConfig, UnknownTopic};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::admin::Admin;
use super::fleet::{Discover, Fleet};
use super::sinks::Sink;
use super::text::{Hidden, Span, Text};

/// The whole file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    /// The `source` of the events: the URI of your service
    pub(super) source: Text,
    /// What becomes of a message that no route takes
    pub(super) unrouted: Unrouted,
    /// How messages are taken from the stores
    pub(super) dispatcher: Dispatcher,
    /// The dashboard, the admin API, health and metrics
    pub(super) admin: Admin,
    /// How all stores share one process
    pub(super) fleet: Fleet,
    /// The databases by name; without any, and without discover, it is the one that --url names
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) stores: BTreeMap<String, Store>,
    /// Where further databases are found, by name
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) discover: BTreeMap<String, Discover>,
    /// Where messages go, by name
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Sink>")]
    pub(super) sinks: BTreeMap<String, Spanned<Sink>>,
    /// Which topics go to which sink: an exact topic first, then the first pattern, then `*`
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) routes: Vec<Route>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: Text::from("postroom"),
            unrouted: Unrouted::default(),
            dispatcher: Dispatcher::default(),
            admin: Admin::default(),
            fleet: Fleet::default(),
            stores: BTreeMap::new(),
            discover: BTreeMap::new(),
            sinks: BTreeMap::new(),
            routes: Vec::new(),
        }
    }
}

/// What becomes of a message that no route takes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unrouted {
    /// It is tried again, and dead in the end
    #[default]
    Retry,
    /// It is a dead letter at once
    Dead,
    /// It is left to other processes; messages with an ordering key are then not delivered here
    Leave,
}

impl From<Unrouted> for UnknownTopic {
    fn from(unrouted: Unrouted) -> Self {
        match unrouted {
            Unrouted::Retry => Self::Retry,
            Unrouted::Dead => Self::Dead,
            Unrouted::Leave => Self::Leave,
        }
    }
}

/// How messages are taken from the stores.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Dispatcher {
    /// Deliveries at the same time, per database: they wait for receivers and cost little
    pub(super) workers: usize,
    /// Messages per claim at most
    pub(super) batch: u32,
    /// How long a message is held before somebody else may take it
    pub(super) lease: Span,
    /// The wait after an empty claim
    pub(super) poll_interval: Span,
    /// What that wait grows to while nothing comes; five times it by default, and 30s with discover
    /// or more than ten stores
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idle_interval: Option<Span>,
    /// How long one delivery may take; less than the lease
    pub(super) timeout: Span,
    /// Deletes what was done this long ago
    pub(super) keep_done: Span,
    /// Deletes what died this long ago; for ever without it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keep_dead: Option<Span>,
    /// When to try again, and when to stop
    pub(super) retry: RetrySection,
}

impl Default for Dispatcher {
    fn default() -> Self {
        let (defaults, purge) = (DispatcherConfig::default(), Purge::default());
        Self {
            workers: 256,
            batch: defaults.batch,
            lease: Span(defaults.lease),
            // Other processes write to the same databases: look often.
            poll_interval: Span(Duration::from_millis(200)),
            idle_interval: None,
            timeout: Span(defaults.handler_timeout),
            keep_done: Span(purge.done.unwrap_or(Duration::from_hours(30 * 24))),
            keep_dead: None,
            retry: RetrySection::default(),
        }
    }
}

/// When to try again, and when to stop.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetrySection {
    /// Dead after so many bad attempts
    pub(super) attempts: u32,
    /// How the waits grow
    pub(super) backoff: Shape,
    /// The first wait, or each one when they are fixed
    pub(super) base: Span,
    /// The longest wait
    pub(super) cap: Span,
}

impl Default for RetrySection {
    fn default() -> Self {
        let (base, cap) = (Duration::from_millis(200), Duration::from_secs(60));
        let attempts = Retry::default().max_attempts;
        Self { attempts, backoff: Shape::Exponential, base: Span(base), cap: Span(cap) }
    }
}

/// How waits grow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Shape {
    /// Doubling, with jitter
    Exponential,
    /// Always the same
    Fixed,
}

impl From<RetrySection> for Retry {
    fn from(section: RetrySection) -> Self {
        let (base, cap) = (section.base.0, section.cap.0);
        let backoff = match section.backoff {
            Shape::Exponential => Backoff::Exponential { base, cap },
            Shape::Fixed => Backoff::Fixed(base),
        };
        Self { backoff, max_attempts: section.attempts }
    }
}

/// A database.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Store {
    /// sqlite:FILE, postgres://… or mysql://…
    #[schemars(with = "Hidden")]
    pub(super) url: Spanned<Hidden>,
    /// The schema, or on SQLite the first part of each table name
    #[serde(default = "default_schema")]
    pub(super) schema: String,
    /// What each table name within the schema starts with
    #[serde(default)]
    pub(super) prefix: String,
    /// Which of the two boxes
    #[serde(default)]
    pub(super) queue: Box_,
    /// How much it is to get compared with others, where the strategy is fair-share
    #[serde(default = "one")]
    pub(super) weight: NonZeroU32,
    /// The routing keys of its messages; its name without any
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub(super) keys: Vec<Spanned<String>>,
    /// Tenants take turns: a claim is divided equally among those that have messages
    #[serde(default)]
    pub(super) fair_tenants: bool,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

pub(super) fn default_schema() -> String {
    StoreConfig::default().schema
}

/// A box.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Box_ {
    #[default]
    Outbox,
    Inbox,
}

impl From<Box_> for Queue {
    fn from(queue: Box_) -> Self {
        match queue {
            Box_::Outbox => Self::Outbox,
            Box_::Inbox => Self::Inbox,
        }
    }
}

/// Which topics go to which sink, and how fast.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    /// A topic, or a pattern in which `*` stands for any characters
    #[schemars(with = "String")]
    pub(super) topics: Spanned<String>,
    /// The name of a sink
    #[schemars(with = "String")]
    pub(super) sink: Spanned<String>,
    /// At most so many deliveries at the same time, per process; 32 for webhooks by default, else
    /// three quarters of the workers when there are several sinks
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<usize>")]
    pub(super) concurrency: Option<Spanned<usize>>,
    /// At most so many deliveries in a time, per process: `100/s`, `30/m`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub(super) rate: Option<Spanned<String>>,
    /// How many may come at once after a quiet time
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) burst: Option<u32>,
    /// Instead of what the dispatcher says
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry: Option<RetrySection>,
}
