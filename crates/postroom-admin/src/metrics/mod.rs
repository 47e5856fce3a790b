//! Figures for Prometheus.
//!
//! Counters and histograms come from the `metrics` facade as things happen. Gauges are set here,
//! from the last sample of each queue: a scrape never asks the database.

mod gone;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use metrics::gauge;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use postroom_core::Snapshot;
use postroom_core::fleet::MemberStatus;
use postroom_core::observe::{self, Circuit, Metric};
use postroom_core::store::Wakes;

pub(crate) use self::gone::Gone;
use crate::access::Right;
use crate::desk::{Desk, fleet};
use crate::health::{SinkState, Thresholds};
use crate::problem::Problem;
use crate::routes::{Guarded, Need};
use crate::sampler::Seen;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// From a tenth of a millisecond, which a handler in this process may take, to ten minutes, which a
/// message may wait for one that is away.
const SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
const MESSAGES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 10_000.0];

/// How often what was measured is put into buckets while nobody asks for it.
const UPKEEP: Duration = Duration::from_secs(5);

/// The recorder of this process: it keeps what the `metrics` facade is told, for Prometheus.
#[derive(Clone)]
pub struct Exporter(PrometheusHandle);

impl Exporter {
    /// Installs it for the whole process. Do it before you open a store: what was counted before is
    /// not seen.
    ///
    /// # Errors
    /// When there is a recorder already.
    pub fn install() -> Result<Self, BuildError> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)?
            .set_buckets_for_metric(Matcher::Full(observe::BATCH_SIZE.name.into()), MESSAGES)?;
        let handle = recorder.install_recorder()?;
        observe::describe_metrics();
        Ok(Self(handle))
    }

    /// All that there is, as text.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Keeps what nobody asks for from growing, for ever.
    pub async fn upkeep(self) {
        loop {
            tokio::time::sleep(UPKEEP).await;
            self.0.run_upkeep();
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

type Render = Box<dyn Fn() -> String + Send + Sync>;
type Sinks = Box<dyn Fn() -> Vec<SinkState> + Send + Sync>;
type Members = Box<dyn Fn() -> Vec<MemberStatus> + Send + Sync>;

/// What monitoring is told beside the samples.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) thresholds: Thresholds,
    pub(crate) render: Option<Render>,
    pub(crate) public: bool,
    pub(crate) sinks: Option<Sinks>,
    pub(crate) members: Option<Members>,
}

impl Watch {
    pub(crate) fn sinks(&self) -> Vec<SinkState> {
        self.sinks.as_ref().map(|sinks| sinks()).unwrap_or_default()
    }

    pub(crate) fn members(&self) -> Vec<MemberStatus> {
        self.members.as_ref().map(|members| members()).unwrap_or_default()
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("thresholds", &self.thresholds).finish_non_exhaustive()
    }
}

/// `/metrics`, for those who may look, or for everybody.
pub(crate) fn routes(public: bool) -> Guarded {
    let need = if public { Need::Public } else { Need::Right(Right::View) };
    Guarded::new().get("/metrics", need, metrics)
}

async fn metrics(State(desk): State<Arc<Desk>>) -> Response {
    let Some(render) = &desk.watch.render else {
        let told = "no exporter is installed in this process; see `Admin::metrics`";
        return Problem::new(StatusCode::NOT_FOUND, "no_exporter", told).into_response();
    };
    for queue in desk.queues().iter() {
        // What this process knows by itself is as of now.
        let sample = queue.sampler.peek();
        let snapshot = queue.store.local().snapshot();
        record(&snapshot, sample.seen.as_ref(), queue.store.wakes());
    }
    desk.watch.sinks().iter().for_each(record_sink);
    if desk.watch.members.is_some() {
        record_fleet(&desk.watch.members());
    }
    gauge!(observe::BUILD_INFO.name, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    ([(CONTENT_TYPE, TEXT)], desk.gone().left_out_of(render())).into_response()
}

/// Sets the gauges of a queue.
pub(crate) fn record(snapshot: &Snapshot, seen: Option<&Seen>, wakes: Wakes) {
    let labels = [("store", snapshot.store.clone()), ("queue", snapshot.queue.to_owned())];
    let set = |metric: Metric, value: f64| gauge!(metric.name, &labels).set(value);
    match seen {
        Some(Seen { stats, nodes, blocked, pauses, .. }) => {
            snapshot.clone().with_stats(*stats).record();
            let live = nodes.iter().filter(|node| node.is_live).count().max(snapshot.dispatchers);
            set(observe::DISPATCHERS, live as f64);
            set(observe::BLOCKED_KEYS, blocked.len() as f64);
            set(observe::PAUSES, pauses.len() as f64);
        }
        None => {
            snapshot.record();
            // Nobody knows, and what was there before is not so any more.
            for metric in OF_THE_DATABASE {
                set(*metric, f64::NAN);
            }
        }
    }
    set(observe::STORE_UP, f64::from(u8::from(seen.is_some())));
    set(observe::POLL_ONLY, f64::from(u8::from(matches!(wakes, Wakes::PollOnly { .. }))));
}

/// What only the database knows.
const OF_THE_DATABASE: &[Metric] = &[
    observe::PENDING,
    observe::RETRYING,
    observe::IN_FLIGHT,
    observe::DEAD_LETTERS,
    observe::OLDEST_AGE,
    observe::DISPATCHERS,
    observe::BLOCKED_KEYS,
    observe::PAUSES,
];

fn record_sink(sink: &SinkState) {
    let labels = [("sink", sink.name.clone()), ("kind", sink.kind.to_owned())];
    let (up, state) = match sink.circuit {
        Circuit::Closed => (1.0, 0.0),
        Circuit::HalfOpen => (0.0, 1.0),
        Circuit::Open => (0.0, 2.0),
    };
    gauge!(observe::SINK_UP.name, &labels).set(up);
    gauge!(observe::SINK_CIRCUIT.name, &labels).set(state);
}

/// Every state, also those that no store is in: a gauge that is not set stays as it was.
fn record_fleet(members: &[MemberStatus]) {
    for state in fleet::STATES {
        let stores = members.iter().filter(|member| fleet::word(&member.state) == state);
        gauge!(observe::FLEET_STORES.name, "state" => state).set(stores.count() as f64);
    }
}
