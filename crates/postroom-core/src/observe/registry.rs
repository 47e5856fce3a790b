//! Every metric by name. What is counted, what is documented, and what dashboards and alert rules
//! may use: all of it is checked against this list.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// A metric of the `metrics` facade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name. It is stable.
    pub name: &'static str,
    /// What kind it is.
    pub kind: MetricKind,
    /// What it is counted in.
    pub unit: Unit,
    /// Its labels, all of which every series has.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// What can be done with a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, until the process ends.
    Counter,
    /// It is what it is at the moment.
    Gauge,
    /// It counts by size.
    Histogram,
}

impl MetricKind {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const BOX: &[&str] = &["store", "queue"];
const TOPIC: &[&str] = &["store", "queue", "topic"];
const WINDOW: &[&str] = &["store", "queue", "window"];
const SINK: &[&str] = &["sink", "kind"];
const STATE: &[&str] = &["state"];
const VERSION: &[&str] = &["version"];

macro_rules! metrics {
    ($(
        $constant:ident, $kind:ident, $name:literal, $unit:ident, $labels:ident, $help:literal;
    )*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                unit: Unit::$unit,
                labels: $labels,
                help: $help,
            };
        )*

        /// All metrics of Postroom.
        pub const METRICS: &[Metric] = &[$($constant,)*];
    };
}

metrics! {
    ENQUEUED, Counter, "postroom_enqueued_total", Count, TOPIC, "messages written";
    HOT_ENQUEUED, Counter, "postroom_hot_enqueued_total", Count, BOX,
        "of those: for the dispatcher of the same process, without a claim";
    HOT_DROPPED, Counter, "postroom_hot_dropped_total", Count, BOX,
        "messages that found no room for that";
    DUPLICATES, Counter, "postroom_duplicates_total", Count, TOPIC,
        "messages not written, because they were there before";
    CONFLICTS, Counter, "postroom_conflicts_total", Count, TOPIC,
        "messages that an inbox refused: one id for different content";
    CLAIMED, Counter, "postroom_claimed_total", Count, BOX, "messages that came from claims";
    CLAIM_DURATION, Histogram, "postroom_claim_duration_seconds", Seconds, BOX,
        "how long claims took, empty ones too";
    BATCH_SIZE, Histogram, "postroom_batch_size", Count, BOX,
        "messages per claim that found any";
    DELIVERED, Counter, "postroom_delivered_total", Count, TOPIC, "deliveries that took effect";
    FAILURES, Counter, "postroom_delivery_failures_total", Count, TOPIC,
        "deliveries that did not, and are tried again";
    DEAD, Counter, "postroom_dead_total", Count, TOPIC,
        "messages made dead; the topic is (unknown) when a claim met them";
    EXPIRED, Counter, "postroom_expired_total", Count, TOPIC,
        "of those: expired in the hands of this process";
    REAPED, Counter, "postroom_reaped_total", Count, BOX, "expired leases that the reaper found";
    LEASE_LOST, Counter, "postroom_lease_lost_total", Count, BOX,
        "leases that went to somebody else before they were settled";
    DELIVERY_DURATION, Histogram, "postroom_delivery_duration_seconds", Seconds, TOPIC,
        "how long handlers and sinks took";
    DELIVERY_LAG, Histogram, "postroom_delivery_lag_seconds", Seconds, TOPIC,
        "from the write of a message to the end of its delivery";
    HOT_QUEUE, Gauge, "postroom_hot_queue", Count, BOX,
        "messages on their way from a commit in this process";
    COLD_QUEUE, Gauge, "postroom_cold_queue", Count, BOX, "claimed messages in this process";
    RUNNING, Gauge, "postroom_running", Count, BOX, "deliveries under way in this process";
    DELIVERED_PER_SECOND, Gauge, "postroom_delivered_per_second", CountPerSecond, WINDOW,
        "deliveries of this process that took effect, over the window";
    FAILURE_RATIO, Gauge, "postroom_failure_ratio", Count, WINDOW,
        "the share of deliveries of this process that did not, 0 to 1, over the window";
    PENDING, Gauge, "postroom_pending", Count, BOX, "messages that are not done or dead";
    RETRYING, Gauge, "postroom_retrying", Count, BOX,
        "of those: had a bad attempt, and nobody holds them";
    IN_FLIGHT, Gauge, "postroom_in_flight", Count, BOX, "of those: somebody holds them";
    DEAD_LETTERS, Gauge, "postroom_dead_letters", Count, BOX, "dead letters";
    OLDEST_AGE, Gauge, "postroom_oldest_pending_age_seconds", Seconds, BOX,
        "the age of the oldest message that can be claimed; 0 when there is none";
    BLOCKED_KEYS, Gauge, "postroom_blocked_keys", Count, BOX,
        "ordering keys that a failing or dead message stops; 200 at most are counted";
    PAUSES, Gauge, "postroom_pauses", Count, BOX, "pauses of a topic, or of the whole queue";
    DISPATCHERS, Gauge, "postroom_dispatchers", Count, BOX,
        "dispatchers of all processes that gave a sign of life";
    STORE_UP, Gauge, "postroom_store_up", Count, BOX,
        "1 when the database answered the last time it was asked, else 0";
    POLL_ONLY, Gauge, "postroom_poll_only", Count, BOX,
        "1 when the work of other processes is found by polling though it could be told, else 0";
    SINK_UP, Gauge, "postroom_sink_up", Count, SINK,
        "1 when the receiver was there the last time, or was not tried yet, else 0";
    SINK_CIRCUIT, Gauge, "postroom_sink_circuit_state", Count, SINK,
        "0 closed: messages go there; 1 half open: the next one tries; 2 open: none do";
    FLEET_STORES, Gauge, "postroom_fleet_stores", Count, STATE,
        "stores of the fleet by state: serving, elsewhere, same, opening, draining or failing";
    BUILD_INFO, Gauge, "postroom_build_info", Count, VERSION, "always 1; the version is a label";
}

/// Tells the recorder what each metric means. Call it once, after you installed one.
pub fn describe_metrics() {
    for Metric { name, kind, unit, help, .. } in METRICS.iter().copied() {
        match kind {
            MetricKind::Counter => describe_counter!(name, unit, help),
            MetricKind::Gauge => describe_gauge!(name, unit, help),
            MetricKind::Histogram => describe_histogram!(name, unit, help),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn obs_2_names_are_unique_and_say_what_they_are() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for Metric { name, kind, unit, .. } in METRICS {
            assert!(name.starts_with("postroom_"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            assert_eq!(name.ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
        }
    }

    /// X18: what grows with the number of messages must not be a label.
    #[test]
    fn x18_no_label_is_an_id_or_a_key() {
        let known = ["store", "queue", "topic", "window", "sink", "kind", "state", "version"];
        for Metric { name, labels, .. } in METRICS {
            assert!(labels.iter().all(|label| known.contains(label)), "{name}: {labels:?}");
        }
    }
}
