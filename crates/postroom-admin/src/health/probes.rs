//! `/livez`, `/readyz`, `/startupz` and `/healthz`.
//!
//! The bare status is for everybody: load balancers have no token. What it is made of is for those
//! who may look.

use std::sync::Arc;

use axum::extract::{Extension, RawQuery, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, http::HeaderValue};
use postroom_core::Timestamp;
use serde_json::json;

use super::{Check, Look, Report, Status, alive, ready, started};
use crate::access::Right;
use crate::desk::{Desk, Queue};
use crate::routes::{Caller, Guarded, Need};
use crate::sampler::Sample;

pub(crate) fn routes() -> Guarded {
    Guarded::new()
        .get("/livez", Need::Public, livez)
        .get("/readyz", Need::Public, readyz)
        .get("/healthz", Need::Public, readyz)
        .get("/startupz", Need::Public, startupz)
}

/// Who asks, and how they want to be told. The guard says who it is only of those it knows.
type Asked = (Option<Extension<Caller>>, RawQuery, HeaderMap);

async fn livez(State(desk): State<Arc<Desk>>, asked: Asked) -> Response {
    let beat = |queue: &Queue| (queue.to_string(), queue.store.local().snapshot().beat);
    let beats: Vec<_> = desk.queues.iter().map(beat).collect();
    tell(&alive(&beats, &desk.watch.thresholds), &asked)
}

async fn readyz(State(desk): State<Arc<Desk>>, asked: Asked) -> Response {
    let samples = peek(&desk);
    let sinks = desk.watch.sinks();
    tell(&ready(&looks(&desk, &samples), &sinks, &desk.watch.thresholds), &asked)
}

async fn startupz(State(desk): State<Arc<Desk>>, asked: Asked) -> Response {
    let samples = peek(&desk);
    tell(&started(&looks(&desk, &samples)), &asked)
}

fn peek(desk: &Desk) -> Vec<Arc<Sample>> {
    desk.queues.iter().map(|queue| queue.sampler.peek()).collect()
}

fn looks<'a>(desk: &'a Desk, samples: &'a [Arc<Sample>]) -> Vec<Look<'a>> {
    let now = Timestamp::host_now();
    let look = |(queue, sample): (&'a Queue, &'a Arc<Sample>)| Look {
        database: &queue.database,
        kind: queue.kind,
        sample,
        age: now.since(sample.at),
    };
    desk.queues.iter().zip(samples).map(look).collect()
}

/// What is judged about one queue and about what messages go to, as [`readyz`] judges it. `sample`
/// is what its page shows.
pub(crate) fn of_queue(desk: &Desk, queue: &Queue, sample: &Arc<Sample>) -> Vec<Check> {
    let is_it = |other: &Queue| (&other.database, other.kind) == (&queue.database, queue.kind);
    let seen = |other: &Queue| match is_it(other) {
        true => Arc::clone(sample),
        false => other.sampler.peek(),
    };
    let samples: Vec<_> = desk.queues.iter().map(seen).collect();
    let report = ready(&looks(desk, &samples), &desk.watch.sinks(), &desk.watch.thresholds);
    let concerns = |check: &Check| match check.name {
        "sink" => true,
        "database" => check.of == queue.database,
        _ => check.of == queue.to_string(),
    };
    report.checks.into_iter().filter(concerns).collect()
}

fn tell(report: &Report, (caller, query, headers): &Asked) -> Response {
    let code = match report.status {
        Status::Healthy | Status::Degraded => StatusCode::OK,
        Status::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
    };
    let status = report.status.as_str();
    let may_look = caller.as_ref().is_some_and(|Extension(caller)| caller.may(Right::View));
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let body = match (accept.contains("application/json"), may_look) {
        (true, true) => Json(json!(report)).into_response(),
        (true, false) => Json(json!({ "status": status })).into_response(),
        (false, true) if is_verbose(query) => {
            let lines: String = report.checks.iter().map(|check| format!("{check}\n")).collect();
            format!("{lines}{status}\n").into_response()
        }
        (false, _) => format!("{status}\n").into_response(),
    };
    let fresh = [(CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    (code, fresh, body).into_response()
}

fn is_verbose(RawQuery(query): &RawQuery) -> bool {
    let query = query.as_deref().unwrap_or_default();
    query.split('&').any(|pair| pair.split('=').next() == Some("verbose"))
}
