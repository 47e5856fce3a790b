//! Many messages at once: by their ids, or all that a filter finds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use postroom_core::MessageId;
use postroom_core::store::{self, Act, Changed};
use serde::Deserialize;
use utoipa::ToSchema;

use super::input::{Body, Filter, Named, Query, Where, duration};
use super::shape::{Done, DryRun, Items, JobView, Outcome, PurgeDryRun, Safe};
use crate::access::Person;
use crate::desk::act::MOST_IDS;
use crate::desk::jobs::{JobId, Pace};
use crate::desk::{Desk, Queue};
use crate::problem::Problem;
use crate::routes::Caller;

/// No job is cut off above this, so that it is exact in JavaScript.
const MOST_LIMIT: u64 = 1_000_000_000_000;

/// Which messages: `ids`, or a `filter`.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bulk {
    /// At most 500.
    ids: Option<Vec<String>>,
    /// All that match. A replay means dead messages that are not discarded, unless a reason is
    /// named; a discard needs the status `dead`, `failed` or `pending`.
    filter: Option<Filter>,
    /// Changes nothing, and says what would be.
    #[serde(default)]
    dry_run: bool,
    /// With a filter: at most so many messages.
    #[schema(minimum = 1)]
    limit: Option<u64>,
    /// With a filter: so many messages per second. Default 1,000.
    #[schema(minimum = 1, maximum = 100_000)]
    rate: Option<u32>,
    /// Goes into the audit log.
    reason: Option<String>,
}

/// Replays messages by their ids, or begins a job that replays all that match a filter.
#[utoipa::path(post, path = "/messages/replay", tag = "messages", params(Where),
    request_body = Bulk, responses(
        (status = 200, description = "Done by id, or a dry run", body = BulkAnswer),
        (status = 202, description = "A job began", body = JobView)))]
pub(super) async fn replay(
    desk: State<Arc<Desk>>,
    caller: Caller,
    query: Query,
    Body(bulk): Body<Bulk>,
) -> Result<Response, Problem> {
    run(&desk, &caller, Act::Replay, query, bulk).await
}

/// Discards messages by their ids, or begins a job that discards all that match a filter.
#[utoipa::path(post, path = "/messages/discard", tag = "messages", params(Where),
    request_body = Bulk, responses(
        (status = 200, description = "Done by id, or a dry run", body = BulkAnswer),
        (status = 202, description = "A job began", body = JobView)))]
pub(super) async fn discard(
    desk: State<Arc<Desk>>,
    caller: Caller,
    query: Query,
    Body(bulk): Body<Bulk>,
) -> Result<Response, Problem> {
    run(&desk, &caller, Act::Discard, query, bulk).await
}

/// What became of the ids, or what a filter finds.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes two answers")]
#[schema(as = BulkAnswer)]
pub(super) enum BulkAnswer {
    #[schema(rename = "outcome")]
    Outcome(Outcome),
    #[schema(rename = "dry_run")]
    DryRun(DryRun),
}

async fn run(
    desk: &Desk,
    caller: &Person,
    act: Act,
    mut query: Query,
    bulk: Bulk,
) -> Result<Response, Problem> {
    let queue = &*query.queue(desk)?;
    query.finish()?;
    let reason = bulk.reason.as_deref();
    match (bulk.ids, bulk.filter) {
        (Some(ids), None) => {
            if bulk.limit.is_some() || bulk.rate.is_some() {
                return Err(Problem::invalid("limit and rate go with a filter only"));
            }
            let ids = ids.iter().map(|id| id.parse()).collect::<Result<Vec<_>, _>>()?;
            let changed = match bulk.dry_run {
                true => foresee(queue, act, &ids).await?,
                false => desk.act(caller, queue, act, &ids, reason).await?,
            };
            Ok(Safe(Outcome::new(&changed, bulk.dry_run)).into_response())
        }
        (None, Some(filter)) => {
            let pace = pace(bulk.limit, bulk.rate)?;
            let list = filter.list()?;
            if bulk.dry_run {
                let plan = desk.plan(queue, act, &list).await?;
                return Ok(Safe(DryRun::from(plan)).into_response());
            }
            let id = desk.begin(caller, queue, act, list, pace, reason)?;
            began(desk, id)
        }
        _ => Err(Problem::invalid("give either ids or a filter")),
    }
}

fn pace(limit: Option<u64>, rate: Option<u32>) -> Result<Pace, Problem> {
    match limit {
        Some(limit) if limit > MOST_LIMIT => {
            Err(Problem::invalid(format!("limit must be 1 to {MOST_LIMIT}, got {limit}")))
        }
        limit => Ok(Pace { limit, rate: rate.unwrap_or(Pace::RATE) }),
    }
}

fn began(desk: &Desk, id: JobId) -> Result<Response, Problem> {
    let job = desk.job(id)?;
    Ok((StatusCode::ACCEPTED, Safe(JobView::new(&job))).into_response())
}

/// What would become of each.
async fn foresee(queue: &Queue, act: Act, ids: &[MessageId]) -> Result<Changed, Problem> {
    if ids.is_empty() || ids.len() > MOST_IDS {
        let got = ids.len();
        return Err(Problem::invalid(format!("ids must be 1 to {MOST_IDS}, got {got}")));
    }
    let mut refusals = HashMap::new();
    for id in ids {
        let found = queue.store.get(*id).await?;
        refusals.insert(*id, act.refusal(found.as_ref().map(|detail| &detail.record)));
    }
    Ok(Changed::each(ids, |id| refusals.get(&id).copied().flatten()))
}

/// What is old enough to be deleted. Ages are like `30d`; what has none is kept.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPurge {
    /// Done and discarded messages, and joins that ended.
    done: Option<String>,
    /// Other dead messages.
    dead: Option<String>,
    /// Idempotency keys of messages that ended.
    keys: Option<String>,
    /// Changes nothing, and says what would be at most.
    #[serde(default)]
    dry_run: bool,
    /// Goes into the audit log.
    reason: Option<String>,
}

/// Begins a job that deletes what is old, for good.
#[utoipa::path(post, path = "/purge", tag = "boxes", params(Where), request_body = NewPurge,
    responses((status = 200, description = "A dry run", body = PurgeDryRun),
        (status = 202, description = "A job began", body = JobView)))]
pub(super) async fn purge(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    mut query: Query,
    Body(new): Body<NewPurge>,
) -> Result<Response, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let purge = ages(new.done, new.dead, new.keys)?;
    if new.dry_run {
        let plan = desk.plan_purge(queue, &purge).await;
        return Ok(Safe(PurgeDryRun::from(plan)).into_response());
    }
    let id = desk.purge(&caller, queue, purge, new.reason.as_deref())?;
    began(&desk, id)
}

/// How old what is deleted must be.
pub(crate) fn ages(
    done: Option<String>,
    dead: Option<String>,
    keys: Option<String>,
) -> Result<store::Purge, Problem> {
    let purge = store::Purge {
        done: age("done", done)?,
        dead: age("dead", dead)?,
        keys: age("keys", keys)?,
        ..store::Purge::default()
    };
    match (purge.done, purge.dead, purge.keys) {
        (None, None, None) => {
            Err(Problem::invalid("nothing is old enough: give an age for done, dead or keys"))
        }
        _ => Ok(purge),
    }
}

fn age(name: &str, text: Option<String>) -> Result<Option<Duration>, Problem> {
    let Some(text) = text else { return Ok(None) };
    match duration(&text) {
        Some(age) => Ok(Some(age)),
        None => Err(Problem::invalid(format!("{name} must be like 12h or 30d, got {text:?}"))),
    }
}

/// The jobs that this process remembers, newest first.
#[utoipa::path(get, path = "/jobs", tag = "jobs", responses((status = 200, body = Items<JobView>)))]
pub(super) async fn jobs(
    State(desk): State<Arc<Desk>>,
    query: Query,
) -> Result<Safe<Items<JobView>>, Problem> {
    query.finish()?;
    Ok(Safe(Items::all(desk.jobs().iter().map(|job| JobView::new(job)).collect())))
}

/// How far a job is.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = JobView)))]
pub(super) async fn job(
    State(desk): State<Arc<Desk>>,
    id: Named,
    query: Query,
) -> Result<Safe<JobView>, Problem> {
    query.finish()?;
    Ok(Safe(JobView::new(&*desk.job(id.0.parse()?)?)))
}

/// Stops a job between two chunks.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = Done)))]
pub(super) async fn cancel(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    id: Named,
    query: Query,
) -> Result<Safe<Done>, Problem> {
    query.finish()?;
    let changed = desk.cancel(&caller, id.0.parse()?).await?;
    Ok(Safe(Done { changed }))
}
