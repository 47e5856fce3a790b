//! What needs attention, the key figures, and how the last minutes went.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use postroom_core::{Latency, Timestamp};

use super::attention::{self, Attention, class_of, failing};
use super::chart::{Chart, Series};
use super::frame::{Ask, Frame, Place};
use super::nodes::NodeRow;
use super::words;
use crate::desk::Desk;
use crate::health::{self, Check};
use crate::problem::Problem;
use crate::sampler::{Point, Sample, Seen};

/// Rates are averages over this long.
const LATELY: Duration = Duration::from_secs(60);

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    attention: Vec<Attention>,
    figures: Vec<Figure>,
    throughput: Option<Chart>,
    backlog: Option<Chart>,
    nodes: Vec<NodeRow>,
}

/// Before there is a database.
#[derive(Template)]
#[template(path = "nothing.html")]
struct Nothing {
    frame: Frame,
}

pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) unit: &'static str,
    pub(super) class: &'static str,
    pub(super) note: String,
    pub(super) href: Option<String>,
}

pub(super) async fn overview(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    if ask.queues.is_empty() {
        return ask
            .show(&Nothing { frame: Frame::around(&desk, &ask, Place::Overview, "Overview")? });
    }
    let queue = &*ask.queue()?;
    let sample = queue.sampler.latest().await;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Overview, "Overview");
    let now = Timestamp::host_now();
    let checks = health::of_queue(&desk, queue, &sample);
    let page = Overview {
        attention: attention::of(&sample, &checks, &desk.watch.thresholds),
        figures: sample
            .seen
            .as_ref()
            .map_or_else(Vec::new, |seen| figures(seen, &sample, &checks, &frame)),
        throughput: throughput(&sample.points),
        backlog: backlog(&sample.points),
        nodes: sample
            .seen
            .iter()
            .flat_map(|seen| &seen.nodes)
            .map(|n| NodeRow::new(n, now))
            .collect(),
        frame,
    };
    ask.show(&page)
}

fn figures(seen: &Seen, sample: &Sample, checks: &[Check], frame: &Frame) -> Vec<Figure> {
    let stats = &seen.stats;
    let backlog = stats.ready + stats.waiting + stats.leased;
    let lately = Lately::of(&sample.points);
    let figure = |name, value, note: String, path: Option<&str>| Figure {
        name,
        value,
        unit: "",
        class: "",
        note,
        href: path.map(|path| frame.to(path)),
    };
    let oldest = stats.oldest_ready.map_or("none".into(), words::span);
    vec![
        Figure {
            class: class_of(checks, "backlog"),
            ..figure(
                "Backlog",
                words::count(backlog),
                lately.eta(backlog),
                Some("/messages?status=pending"),
            )
        },
        Figure {
            class: class_of(checks, "oldest"),
            ..figure("Oldest waiting", oldest, "since it could be delivered".into(), None)
        },
        figure(
            "In flight",
            words::count(stats.leased),
            "held by dispatchers".into(),
            Some("/messages?status=leased"),
        ),
        Figure {
            class: if stats.failed > 0 { "warn" } else { "" },
            ..figure(
                "Retrying",
                words::count(stats.failed),
                "had a bad attempt".into(),
                Some("/failures"),
            )
        },
        Figure {
            class: if seen.dead_letters() > 0 { "bad" } else { "" },
            ..figure(
                "Dead",
                words::count(seen.dead_letters()),
                "need a person".into(),
                Some("/dead"),
            )
        },
        Figure {
            unit: "/s",
            ..figure(
                "Delivered",
                words::rate(lately.delivered),
                format!("{} kept as done", words::count(stats.done)),
                Some("/messages?status=done"),
            )
        },
        Figure {
            class: class_of(checks, "failures"),
            ..figure(
                "Failure ratio",
                words::percent(failing(sample)),
                "of this process, last 5 minutes".into(),
                Some("/failures"),
            )
        },
        latency(&sample.snapshot.delivery),
    ]
}

fn latency(delivery: &Latency) -> Figure {
    let (value, note) = match delivery.count {
        0 => ("–".to_owned(), "nothing delivered by this process".to_owned()),
        _ => {
            let note = format!("p50 {}, write to done", words::span(delivery.p50));
            (words::span(delivery.p99), note)
        }
    };
    Figure { name: "Delivery p99", value, unit: "", class: "", note, href: None }
}

/// Averages over the last points.
struct Lately {
    delivered: f64,
    written: f64,
}

impl Lately {
    fn of(points: &[Point]) -> Self {
        let Some(last) = points.last() else { return Self { delivered: 0.0, written: 0.0 } };
        let recent: Vec<_> =
            points.iter().skip(1).filter(|point| last.at.since(point.at) < LATELY).collect();
        let mean = |rate: fn(&Point) -> f64| {
            recent.iter().map(|point| rate(point)).sum::<f64>() / recent.len().max(1) as f64
        };
        Self { delivered: mean(|point| point.delivered), written: mean(|point| point.written) }
    }

    /// When the backlog is gone, if it goes on so.
    fn eta(&self, backlog: u64) -> String {
        let net = self.delivered - self.written;
        if backlog == 0 {
            "nothing waits".into()
        } else if net > 0.01 {
            let seconds = (backlog as f64 / net).min(1e9);
            format!("gone in {} at this rate", words::span(Duration::from_secs_f64(seconds.ceil())))
        } else if self.delivered > 0.0 {
            "not shrinking".into()
        } else {
            "nothing is delivered".into()
        }
    }
}

fn times(points: &[Point]) -> Vec<Timestamp> {
    points.iter().map(|point| point.at).collect()
}

fn throughput(points: &[Point]) -> Option<Chart> {
    // The first point knows no rate.
    let points = points.get(1..)?;
    let line = |name, class, filled, rate: fn(&Point) -> f64| Series {
        name,
        class,
        filled,
        values: points.iter().map(rate).collect(),
    };
    let series = [
        line("Delivered", "a", true, |point| point.delivered),
        line("Written", "b", false, |point| point.written),
        line("Failed", "c", false, |point| point.failed),
    ];
    Chart::draw("throughput", "Messages per second", "/s", &times(points), &series)
}

fn backlog(points: &[Point]) -> Option<Chart> {
    let values = points.iter().map(|point| point.backlog as f64).collect();
    let series = [Series { name: "Backlog", class: "a", filled: true, values }];
    Chart::draw("backlog", "Messages that wait or are in flight", "", &times(points), &series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backlog_is_gone_when_more_is_delivered_than_written() {
        let eta = |delivered, written, backlog| Lately { delivered, written }.eta(backlog);
        assert_eq!(eta(10.0, 4.0, 60), "gone in 10 s at this rate");
        assert_eq!(eta(4.0, 10.0, 60), "not shrinking");
        assert_eq!(eta(0.0, 0.0, 60), "nothing is delivered");
        assert_eq!(eta(0.0, 0.0, 0), "nothing waits");
    }
}
