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
use serde_json::json;

use super::{Check, Look, Report, Status, Thresholds, alive, of_one, queue, ready, started};
use crate::access::Right;
use crate::desk::{Desk, Queue, Queues};
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
    let beats: Vec<_> = desk.queues().iter().map(beat).collect();
    tell(&alive(&beats, &desk.watch.thresholds).brief(), &asked)
}

async fn readyz(State(desk): State<Arc<Desk>>, asked: Asked) -> Response {
    let queues = desk.queues();
    let samples = peek(&queues);
    let (members, sinks) = (desk.watch.members(), desk.watch.sinks());
    let report = ready(&looks(&queues, &samples), &members, &sinks, &desk.watch.thresholds);
    tell(&report.brief(), &asked)
}

async fn startupz(State(desk): State<Arc<Desk>>, asked: Asked) -> Response {
    let queues = desk.queues();
    let samples = peek(&queues);
    tell(&started(&looks(&queues, &samples), &desk.watch.members()).brief(), &asked)
}

fn peek(queues: &Queues) -> Vec<Arc<Sample>> {
    queues.iter().map(|queue| queue.sampler.peek()).collect()
}

fn looks<'a>(queues: &'a Queues, samples: &'a [Arc<Sample>]) -> Vec<Look<'a>> {
    queues.iter().zip(samples).map(|(queue, sample)| look(queue, sample)).collect()
}

fn look<'a>(queue: &'a Queue, sample: &'a Sample) -> Look<'a> {
    Look {
        database: &queue.database,
        kind: queue.kind,
        sample,
        age: sample.counted.elapsed(),
        late: queue.sampler.late(),
    }
}

/// What is judged about one queue and about what messages go to, as [`readyz`] judges it. `sample`
/// is what its page shows.
pub(crate) fn of_queue(desk: &Desk, queue: &Queue, sample: &Arc<Sample>) -> Vec<Check> {
    let queues = desk.queues();
    let seen = |other: &Queue| match other.kind == queue.kind {
        true => Arc::clone(sample),
        false => other.sampler.peek(),
    };
    let samples: Vec<_> = queues.of(&queue.database).map(seen).collect();
    let own = queues.of(&queue.database).zip(&samples);
    let looks: Vec<_> = own.map(|(queue, sample)| look(queue, sample)).collect();
    let mut others = queues.iter().filter(|other| other.database != queue.database);
    let others_answer = others.any(|other| other.sampler.last().seen.is_some());
    let (sinks, limits) = (desk.watch.sinks(), &desk.watch.thresholds);
    let concerns = |check: &Check| match check.name {
        "sink" | "database" => true,
        _ => check.of == queue.to_string(),
    };
    of_one(&looks, others_answer, &sinks, limits).into_iter().filter(concerns).collect()
}

/// What is worst about a queue, if anything is not well.
pub(crate) fn worst(of: &Queue, sample: &Sample, limits: &Thresholds) -> Option<Check> {
    let checks = queue(&look(of, sample), limits).into_iter();
    checks.filter(|check| check.status != Status::Healthy).max_by_key(|check| check.status)
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
