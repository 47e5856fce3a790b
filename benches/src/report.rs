//! Medians, ratios and the table.

use std::time::Duration;

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::Plan;

/// One line of the report.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    /// Messages per second, medians.
    pub(crate) publish: u64,
    pub(crate) postroom: u64,
    pub(crate) control: u64,
    pub(crate) ratio: f64,
    /// Slowest and fastest round of Postroom.
    pub(crate) spread: (u64, u64),
    /// Bytes of write-ahead log per message, full-page images excluded.
    pub(crate) wal_publish: Option<u64>,
    pub(crate) wal_drain: Option<u64>,
}

/// How long messages waited.
#[derive(Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    pub(crate) messages: usize,
    pub(crate) p50_us: u64,
    pub(crate) p99_us: u64,
}

impl Latency {
    pub(crate) fn new(id: &'static str, what: String, waits: &[Duration]) -> Self {
        let mut waits: Vec<_> = waits.iter().map(Duration::as_micros).collect();
        waits.sort_unstable();
        let at = |share: usize| waits.get(waits.len() * share / 100).copied().unwrap_or(0) as u64;
        Self { id, what, messages: waits.len(), p50_us: at(50), p99_us: at(99) }
    }
}

/// What something costs, or how long it takes.
#[derive(Debug, Serialize)]
pub(crate) struct Cost {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    pub(crate) value: String,
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) figures: Vec<Figure>,
    pub(crate) latencies: Vec<Latency>,
    pub(crate) costs: Vec<Cost>,
}

/// The rates of the rounds.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    rates: Vec<u64>,
}

impl Rates {
    pub(crate) fn add(&mut self, messages: usize, took: Duration) {
        self.rates.push((messages as f64 / took.as_secs_f64()) as u64);
        self.rates.sort_unstable();
    }

    pub(crate) fn median(&self) -> u64 {
        self.rates.get(self.rates.len() / 2).copied().unwrap_or(0)
    }

    pub(crate) fn spread(&self) -> (u64, u64) {
        let ends = (self.rates.first(), self.rates.last());
        (ends.0.copied().unwrap_or(0), ends.1.copied().unwrap_or(0))
    }
}

/// The ratio of two medians.
pub(crate) fn ratio(postroom: &Rates, control: &Rates) -> f64 {
    postroom.median() as f64 / control.median().max(1) as f64
}

pub(crate) fn table(plan: Plan, report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "id",
        "figure",
        "publish msg/s",
        "drain msg/s",
        "slowest–fastest",
        "control msg/s",
        "ratio",
        "WAL B/msg publish + drain",
    ]);
    for figure in &report.figures {
        let wal = figure.wal_publish.zip(figure.wal_drain);
        table.add_row([
            figure.id.to_owned(),
            figure.what.clone(),
            figure.publish.to_string(),
            figure.postroom.to_string(),
            format!("{}–{}", figure.spread.0, figure.spread.1),
            figure.control.to_string(),
            format!("{:.2}", figure.ratio),
            wal.map_or("–".to_owned(), |(publish, drain)| format!("{publish} + {drain}")),
        ]);
    }
    let mut waits = Table::new();
    waits.load_style(presets::UTF8_FULL_CONDENSED);
    waits.set_header(["id", "figure", "messages", "p50 µs", "p99 µs"]);
    for wait in &report.latencies {
        let numbers = [wait.messages as u64, wait.p50_us, wait.p99_us].map(|n| n.to_string());
        waits.add_row([wait.id.to_owned(), wait.what.clone()].into_iter().chain(numbers));
    }
    let mut costs = Table::new();
    costs.load_style(presets::UTF8_FULL_CONDENSED);
    costs.set_header(["id", "figure", "value"]);
    for cost in &report.costs {
        costs.add_row([cost.id, &cost.what, &cost.value]);
    }
    format!(
        "{} messages of {} B, batch {}, medians of {} rounds; control: the same SQL through the \
         bare driver\n{table}\n{waits}\n{costs}",
        plan.messages, plan.payload, plan.batch, plan.rounds
    )
}
