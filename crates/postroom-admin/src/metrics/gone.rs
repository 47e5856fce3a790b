//! Figures of boxes that are gone.
//!
//! The `metrics` facade can not forget a series. So gauges of what is gone become `NaN`, for
//! whoever exports them, and `/metrics` leaves every line of it out. What was counted goes on where
//! it was when the box comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::gauge;
use metrics_exporter_prometheus::formatting::sanitize_label_value;
use postroom_core::observe::{METRICS, MetricKind};
use postroom_core::store::AdminStore;

type Labels = BTreeMap<String, BTreeSet<&'static str>>;

/// Which boxes are gone, as figures name them.
#[derive(Default)]
pub(crate) struct Gone {
    /// Queues by store, the names of which are written as an exporter writes them.
    labels: Mutex<Labels>,
}

impl Gone {
    fn lock(&self) -> MutexGuard<'_, Labels> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are gone, and those are there: what has the name of both is there.
    pub(crate) fn update<'a>(
        &self,
        gone: impl Iterator<Item = &'a dyn AdminStore>,
        here: impl Iterator<Item = &'a dyn AdminStore>,
    ) {
        let mut labels = self.lock();
        for (store, queue) in gone.map(name_of) {
            labels.entry(sanitize_label_value(&store)).or_default().insert(queue);
        }
        if labels.is_empty() {
            return;
        }
        for (store, queue) in here.map(name_of) {
            labels.entry(sanitize_label_value(&store)).and_modify(|queues| {
                queues.remove(queue);
            });
        }
        labels.retain(|_, queues| !queues.is_empty());
    }

    /// Sets the gauges of a box that ended to `NaN`, unless another one has its name.
    pub(crate) fn forget(&self, store: &dyn AdminStore) {
        let (store, queue) = name_of(store);
        // The lock is held, so that one that comes back sets its own afterwards.
        let labels = self.lock();
        let queues = labels.get(&sanitize_label_value(&store));
        if !queues.is_some_and(|queues| queues.contains(queue)) {
            return;
        }
        for metric in METRICS.iter().filter(|metric| metric.kind == MetricKind::Gauge) {
            let of_box = [("store", store.clone()), ("queue", queue.to_owned())];
            match metric.labels {
                ["store", "queue"] => gauge!(metric.name, &of_box).set(f64::NAN),
                ["store", "queue", "window"] => {
                    let [store, queue] = of_box;
                    for window in ["1m", "5m"] {
                        let labels = [store.clone(), queue.clone(), ("window", window.to_owned())];
                        gauge!(metric.name, &labels).set(f64::NAN);
                    }
                }
                _ => {}
            }
        }
    }

    /// The text of an exporter without the lines of what is gone.
    pub(super) fn left_out_of(&self, text: String) -> String {
        let labels = self.lock();
        if labels.is_empty() {
            return text;
        }
        let is_gone = |line: &str| {
            line.starts_with("postroom_")
                && value(line, "store").zip(value(line, "queue")).is_some_and(|(store, queue)| {
                    labels.get(store).is_some_and(|queues| queues.contains(queue))
                })
        };
        text.split_inclusive('\n').filter(|line| !is_gone(line)).collect()
    }
}

fn name_of(store: &dyn AdminStore) -> (String, &'static str) {
    let local = store.local();
    (local.name().to_owned(), local.snapshot().queue)
}

/// The value of a label, as it is written. Within values quotes are escaped, so no value looks like
/// a label.
fn value<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    let (_, labels) = line.split_once('{')?;
    let start = labels.match_indices(label).find_map(|(at, _)| {
        let is_label = at == 0 || labels[..at].ends_with(',');
        let rest = labels[at + label.len()..].strip_prefix("=\"")?;
        is_label.then_some(rest)
    })?;
    let mut escaped = false;
    let end = start.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    Some(&start[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(names: &[(&str, &'static str)]) -> Gone {
        let gone = Gone::default();
        for (store, queue) in names {
            gone.lock().entry(sanitize_label_value(store)).or_default().insert(queue);
        }
        gone
    }

    #[test]
    fn obs_5_lines_of_what_is_gone_are_left_out_and_no_others() {
        let text = "# TYPE postroom_pending gauge\n\
            postroom_pending{store=\"a\",queue=\"outbox\"} 1\n\
            postroom_pending{store=\"a\",queue=\"inbox\"} 2\n\
            postroom_pending{store=\"ab\",queue=\"outbox\"} 3\n\
            postroom_enqueued_total{store=\"a\",queue=\"outbox\",topic=\"t\"} 4\n\
            postroom_enqueued_total{store=\"b\",queue=\"outbox\",topic=\",store=\\\"a\\\"\"} 5\n\
            mine{store=\"a\",queue=\"outbox\"} 6\n\
            postroom_build_info{version=\"1\"} 1\n";
        let left = gone(&[("a", "outbox")]).left_out_of(text.to_owned());
        let numbers: Vec<_> = left.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(numbers, ["gauge", "2", "3", "5", "6", "1"]);
        assert_eq!(gone(&[]).left_out_of(text.to_owned()), text);
    }

    #[test]
    fn obs_5_names_with_quotes_are_found() {
        let line = "postroom_up{queue=\"outbox\",store=\"a\\\"b\\\\c\\nd\"} 1\n";
        assert_eq!(value(line, "store"), Some("a\\\"b\\\\c\\nd"));
        assert_eq!(gone(&[("a\"b\\c\nd", "outbox")]).left_out_of(line.to_owned()), "");
        assert_eq!(value("postroom_up 1", "store"), None);
    }
}
