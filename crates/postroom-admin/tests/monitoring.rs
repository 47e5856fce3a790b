//! The Grafana dashboard and the alert rules use what is exported, and nothing else.

use std::collections::BTreeSet;

use postroom_core::observe::{METRICS, Metric, MetricKind};
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../deploy/grafana/postroom.json");
const ALERTS: &str = include_str!("../../../deploy/prometheus/alerts.yaml");
const ALERT_TESTS: &str = include_str!("../../../deploy/prometheus/alerts_test.yaml");
const GUIDE: &str = include_str!("../../../docs/guide/monitoring.md");

/// Labels that Prometheus and its histograms add.
const ADDED: [&str; 4] = ["le", "instance", "job", "alertname"];

/// A metric that an expression uses, with the names of the labels that it selects by.
#[derive(Debug)]
struct Used {
    name: String,
    labels: Vec<String>,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// All metrics of ours in an expression.
fn used(expression: &str) -> Vec<Used> {
    let mut found = Vec::new();
    for (at, _) in expression.match_indices("postroom_") {
        if expression[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let rest = &expression[at..];
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let selector = rest[end..].strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let selector = selector.map(|(inside, _)| inside).unwrap_or_default();
        let label = |pair: &str| pair.split(['=', '!', '~']).next().map(|l| l.trim().to_owned());
        let labels = selector.split(',').filter_map(label).filter(|label| !label.is_empty());
        found.push(Used { name: rest[..end].to_owned(), labels: labels.collect() });
    }
    found
}

/// The labels that an expression groups by.
fn grouped(expression: &str) -> Vec<&str> {
    let groups = expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    groups.flat_map(|group| group.split(',')).map(str::trim).collect()
}

fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| {
        let parts = ["_bucket", "_sum", "_count"];
        let whole = parts.iter().find_map(|part| name.strip_suffix(part));
        metric.name == name
            || metric.kind == MetricKind::Histogram
                && whole.is_some_and(|whole| metric.name == whole)
    })
}

/// What is wrong with an expression.
fn problems(expression: &str) -> Vec<String> {
    let (mut problems, mut known) = (Vec::new(), BTreeSet::from(ADDED));
    for Used { name, labels } in used(expression) {
        let Some(metric) = metric(&name) else {
            problems.push(format!("{name} is not exported"));
            continue;
        };
        let bare = metric.kind == MetricKind::Histogram && metric.name == name;
        if bare {
            problems.push(format!("{name} is a histogram: it has _bucket, _sum and _count"));
        }
        known.extend(metric.labels);
        for label in labels {
            if !metric.labels.contains(&label.as_str()) && !ADDED.contains(&label.as_str()) {
                problems.push(format!("{name} has no label {label}"));
            }
        }
    }
    for label in grouped(expression) {
        if !known.contains(label) {
            problems.push(format!("nothing in `{expression}` has the label {label}"));
        }
    }
    problems
}

/// Every text under this key, wherever it is.
fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    for (name, inner) in value.as_object().into_iter().flatten() {
        found.extend(inner.as_str().filter(|_| name == key));
        texts(inner, key, found);
    }
    value.as_array().into_iter().flatten().for_each(|inner| texts(inner, key, found));
}

/// The expressions of the rules, each in one line.
fn alert_expressions() -> Vec<String> {
    let rules = ALERTS.split("- alert: ").skip(1);
    let expression = |rule: &str| {
        let (_, rest) = rule.split_once("expr: ").expect("every rule has one");
        let end = ["\n        for:", "\n        labels:"].iter().filter_map(|key| rest.find(key));
        let text = &rest[..end.min().expect("labels follow")];
        text.trim_start_matches(">-").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    rules.map(expression).collect()
}

#[test]
fn obs_5_the_dashboard_uses_metrics_and_labels_that_exist() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let mut expressions = Vec::new();
    texts(&dashboard["panels"], "expr", &mut expressions);
    assert!(expressions.len() > 20, "{}", expressions.len());
    for expression in &expressions {
        assert_eq!(problems(expression), Vec::<String>::new(), "{expression}");
    }
    let mut queries = Vec::new();
    texts(&dashboard["templating"], "query", &mut queries);
    for query in queries.iter().filter(|query| query.starts_with("label_values(")) {
        let (name, label) = query["label_values(".len()..].split_once(", ").expect("two parts");
        let metric = metric(name).unwrap_or_else(|| panic!("{name}"));
        assert!(metric.labels.contains(&label.trim_end_matches(')')), "{query}");
    }
    let mut sources = Vec::new();
    texts(&dashboard["panels"], "uid", &mut sources);
    assert!(sources.iter().all(|source| *source == "${DS_PROMETHEUS}"), "{sources:?}");
}

#[test]
fn obs_5_the_alert_rules_use_metrics_and_labels_that_exist() {
    let expressions = alert_expressions();
    assert!(expressions.len() > 8, "{expressions:?}");
    for expression in &expressions {
        assert!(!used(expression).is_empty(), "{expression}");
        assert_eq!(problems(expression), Vec::<String>::new(), "{expression}");
    }
    // The series that the rules are tested with have the labels that ours have.
    for line in ALERT_TESTS.lines().filter(|line| line.contains("series: '")) {
        for Used { name, mut labels } in used(line) {
            let metric = metric(&name).unwrap_or_else(|| panic!("{name} is not exported"));
            labels.retain(|label| !ADDED.contains(&label.as_str()));
            labels.sort();
            let mut all: Vec<_> = metric.labels.to_vec();
            all.sort_unstable();
            assert_eq!(labels, all, "{line}");
        }
    }
}

#[test]
fn obs_5_every_alert_has_a_section_in_the_guide() {
    let anchor = |heading: &str| heading.trim().to_lowercase().replace(' ', "-");
    let headings = GUIDE.lines().filter_map(|line| line.strip_prefix("### "));
    let anchors: BTreeSet<_> = headings.map(anchor).collect();
    let links = ALERTS.split("runbook_url: \"docs/guide/monitoring.md#").skip(1);
    let links: Vec<_> = links.filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), alert_expressions().len(), "every rule has one");
    for link in links {
        assert!(anchors.contains(link), "{link} in {anchors:?}");
    }
}

#[test]
fn the_check_of_names_sees_what_is_wrong() {
    for (expression, expected) in [
        ("rate(postroom_done_total[5m])", "postroom_done_total is not exported"),
        ("postroom_pending{topic=\"a\"}", "postroom_pending has no label topic"),
        ("postroom_batch_size > 1", "histogram"),
        ("sum by (tenant) (postroom_pending)", "has the label tenant"),
    ] {
        let found = problems(expression);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{found:?}");
    }
    let right =
        "sum by (le, topic) (rate(postroom_delivery_lag_seconds_bucket{store=~\"$s\"}[5m]))";
    assert_eq!(problems(right), Vec::<String>::new());
}
