//! Boxes: their figures, topics, failures, keys, dispatchers, joins and audit log.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use futures_util::future::join_all;
use postroom_core::JoinId;
use postroom_core::store::{JoinState, ListJoins, PauseRecord};

use super::figures::{
    AuditView, BoxView, FailureView, JoinView, KeyView, MemberView, NodeView, PauseView, TopicView,
    Topics,
};
use super::input::{Body, Named, Paging, Query, Reason, Where};
use super::shape::{Done, Items, Safe};
use crate::desk::{Desk, Queue, failures};
use crate::problem::Problem;
use crate::routes::Caller;
use crate::sampler::{FEW, Sample, Seen};

/// Boxes with their last figures, in the order in which their databases were added. A page holds
/// all boxes of a database or none.
#[utoipa::path(get, path = "/stores", tag = "boxes",
    params(
        ("after" = Option<String>, Query, description = "`next` of the page before."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500,
            description = "How many databases at most. Default 250."),
    ),
    responses((status = 200, body = Items<BoxView>)))]
pub(super) async fn stores(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Items<BoxView>>, Problem> {
    let (after, limit) = (query.parse::<u64>("after")?, query.limit(250, 500)?);
    query.finish()?;
    let queues = desk.queues();
    let mut numbers: Vec<_> = queues.iter().map(|queue| queue.number).collect();
    numbers.dedup();
    numbers.retain(|number| after.is_none_or(|after| *number > after));
    let last = numbers.get(limit as usize - 1).copied();
    let next = last.filter(|_| numbers.len() > limit as usize).map(|last| last.to_string());
    let is_here = |queue: &&Queue| {
        after.is_none_or(|after| queue.number > after)
            && last.is_none_or(|last| queue.number <= last)
    };
    let shown: Vec<_> = queues.iter().filter(is_here).collect();
    let items = match shown.len() {
        ..=FEW => join_all(shown.into_iter().map(view)).await,
        // Who lists many is not somebody who looks at each.
        _ => shown.into_iter().map(|queue| viewed(queue, &queue.sampler.peek())).collect(),
    };
    Ok(Safe(Items { items, next }))
}

fn viewed(queue: &Queue, sample: &Sample) -> BoxView {
    BoxView::new(&queue.database, queue.kind, sample)
}

async fn view(queue: &Queue) -> BoxView {
    let sample = queue.sampler.latest().await;
    viewed(queue, &sample)
}

/// The last figures of one box.
#[utoipa::path(get, path = "/stats", tag = "boxes", params(Where),
    responses((status = 200, body = BoxView)))]
pub(super) async fn stats(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<BoxView>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    Ok(Safe(view(queue).await))
}

/// What this process did with one box since it began, and the last figures of the database.
#[utoipa::path(get, path = "/snapshot", tag = "boxes", params(Where),
    responses((status = 200, body = serde_json::Value)))]
pub(super) async fn snapshot(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<postroom_core::Snapshot>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let sample = queue.sampler.latest().await;
    let snapshot = queue.store.local().snapshot();
    Ok(Safe(match &sample.seen {
        Some(seen) => snapshot.with_stats(seen.stats),
        None => snapshot,
    }))
}

/// What the database said at the last look.
async fn seen<T>(queue: &Queue, read: impl FnOnce(&Seen) -> T) -> Result<T, Problem> {
    match &queue.sampler.latest().await.seen {
        Some(seen) => Ok(read(seen)),
        None => Err(Problem::unavailable()),
    }
}

/// Topics with messages that are not delivered, and topics that are paused.
#[utoipa::path(get, path = "/topics", tag = "boxes", params(Where),
    responses((status = 200, body = Topics)))]
pub(super) async fn topics(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Topics>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    // Pauses are few: they are read afresh, so that who pauses sees it at once.
    let pauses = queue.store.pauses().await?;
    let stats = seen(queue, |seen| seen.topics.clone()).await?;
    let whole = pauses.iter().find(|pause| pause.topic.is_none()).map(PauseView::new);
    let mut paused: BTreeMap<&str, &PauseRecord> =
        pauses.iter().filter_map(|pause| Some((pause.topic.as_deref()?, pause))).collect();
    let mut items: Vec<_> = stats
        .into_iter()
        .map(|topic| TopicView {
            pause: paused.remove(topic.topic.as_str()).map(PauseView::new),
            topic: topic.topic,
            live: topic.live,
            failed: topic.failed,
            dead: topic.dead,
        })
        .collect();
    items.extend(paused.into_iter().map(|(topic, pause)| TopicView {
        topic: topic.to_owned(),
        pause: Some(PauseView::new(pause)),
        ..TopicView::default()
    }));
    Ok(Safe(Topics { pause: whole, items }))
}

/// Pauses the whole box.
#[utoipa::path(post, path = "/pause", tag = "boxes", params(Where), request_body = Reason,
    responses((status = 200, body = Done)))]
pub(super) async fn pause_all(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    mut query: Query,
    Body(Reason { reason }): Body<Reason>,
) -> Result<Safe<Done>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let changed = desk.pause(&caller, queue, None, reason.as_deref()).await?;
    Ok(Safe(Done { changed }))
}

/// Ends the pause of the whole box. Topics that are paused stay so.
#[utoipa::path(post, path = "/resume", tag = "boxes", params(Where), request_body = Reason,
    responses((status = 200, body = Done)))]
pub(super) async fn resume_all(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    mut query: Query,
    Body(Reason { reason }): Body<Reason>,
) -> Result<Safe<Done>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let changed = desk.resume(&caller, queue, None, reason.as_deref()).await?;
    Ok(Safe(Done { changed }))
}

/// Pauses a topic.
#[utoipa::path(post, path = "/topics/{topic}/pause", tag = "boxes",
    params(("topic" = String, Path), Where), request_body = Reason,
    responses((status = 200, body = Done)))]
pub(super) async fn pause(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Named(topic): Named,
    mut query: Query,
    Body(Reason { reason }): Body<Reason>,
) -> Result<Safe<Done>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let changed = desk.pause(&caller, queue, Some(&topic), reason.as_deref()).await?;
    Ok(Safe(Done { changed }))
}

/// Ends the pause of a topic.
#[utoipa::path(post, path = "/topics/{topic}/resume", tag = "boxes",
    params(("topic" = String, Path), Where), request_body = Reason,
    responses((status = 200, body = Done)))]
pub(super) async fn resume(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    Named(topic): Named,
    mut query: Query,
    Body(Reason { reason }): Body<Reason>,
) -> Result<Safe<Done>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let changed = desk.resume(&caller, queue, Some(&topic), reason.as_deref()).await?;
    Ok(Safe(Done { changed }))
}

/// The newest failures, grouped by topic, reason and error; the largest groups first.
#[utoipa::path(get, path = "/failures", tag = "boxes", params(Where),
    responses((status = 200, body = Items<FailureView>)))]
pub(super) async fn failures(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Items<FailureView>>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let groups = seen(queue, |seen| failures::groups(&seen.failing)).await?;
    Ok(Safe(Items::all(groups.into_iter().map(FailureView::from).collect())))
}

/// Ordering keys that stand still.
#[utoipa::path(get, path = "/keys", tag = "boxes", params(Where),
    responses((status = 200, body = Items<KeyView>)))]
pub(super) async fn keys(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Items<KeyView>>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let keys = seen(queue, |seen| seen.blocked.iter().map(KeyView::from).collect()).await?;
    Ok(Safe(Items::all(keys)))
}

/// Dispatchers that were heard of within the last day.
#[utoipa::path(get, path = "/nodes", tag = "boxes", params(Where),
    responses((status = 200, body = Items<NodeView>)))]
pub(super) async fn nodes(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Items<NodeView>>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let nodes = seen(queue, |seen| seen.nodes.iter().map(NodeView::from).collect()).await?;
    Ok(Safe(Items::all(nodes)))
}

/// The audit log of a database, newest first.
#[utoipa::path(get, path = "/audit", tag = "audit", params(Where, Paging),
    responses((status = 200, body = Items<AuditView>)))]
pub(super) async fn audit(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Items<AuditView>>, Problem> {
    let queue = &*query.queue(&desk)?;
    let (before, limit) = (query.parse("before")?, query.limit(50, 500)?);
    query.finish()?;
    let rows = queue.store.audit(before, limit).await?;
    let full = rows.len() == limit as usize;
    let next = rows.last().filter(|_| full).map(|row| row.number.to_string());
    Ok(Safe(Items { items: rows.into_iter().map(AuditView::from).collect(), next }))
}

/// Joins, newest first.
#[utoipa::path(get, path = "/joins", tag = "joins", params(Where, Paging,
        ("state" = Option<String>, Query, description = "`open`, `succeeded`, `failed` or \
         `cancelled`")),
    responses((status = 200, body = Items<JoinView>)))]
pub(super) async fn joins(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<Items<JoinView>>, Problem> {
    let queue = &*query.queue(&desk)?;
    let state = query.text("state").map(|state| join_state(&state)).transpose()?;
    let (before, limit) = (query.parse("before")?, query.limit(50, 500)?);
    query.finish()?;
    let joins = queue.store.joins(&ListJoins { state, before, limit }).await?;
    let full = joins.len() == limit as usize;
    let next = joins.last().filter(|_| full).map(|join| join.id.to_string());
    Ok(Safe(Items { items: joins.into_iter().map(JoinView::from).collect(), next }))
}

fn join_state(text: &str) -> Result<JoinState, Problem> {
    const ALL: [JoinState; 4] =
        [JoinState::Open, JoinState::Succeeded, JoinState::Failed, JoinState::Cancelled];
    ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let known = ALL.map(JoinState::as_str).join(", ");
        Problem::invalid(format!("state must be one of {known}, got {text:?}"))
    })
}

/// One join.
#[utoipa::path(get, path = "/joins/{id}", tag = "joins", params(("id" = String, Path), Where),
    responses((status = 200, body = JoinView)))]
pub(super) async fn join(
    State(desk): State<Arc<Desk>>,
    id: Named,
    mut query: Query,
) -> Result<Safe<JoinView>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let id: JoinId = id.0.parse()?;
    let join = queue.store.join(id).await?;
    let join = join.ok_or_else(|| Problem::not_found(format!("there is no join {id}")))?;
    Ok(Safe(join.into()))
}

/// The members of a join, in the order of their ids.
#[utoipa::path(get, path = "/joins/{id}/members", tag = "joins",
    params(("id" = String, Path), Where,
        ("after" = Option<String>, Query, description = "`next` of the page before"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = Items<MemberView>)))]
pub(super) async fn members(
    State(desk): State<Arc<Desk>>,
    id: Named,
    mut query: Query,
) -> Result<Safe<Items<MemberView>>, Problem> {
    let queue = &*query.queue(&desk)?;
    let (after, limit) = (query.parse("after")?, query.limit(50, 500)?);
    query.finish()?;
    let members = queue.store.join_members(id.0.parse()?, after, limit).await?;
    let full = members.len() == limit as usize;
    let next = members.last().filter(|_| full).map(|member| member.message.to_string());
    Ok(Safe(Items { items: members.into_iter().map(MemberView::from).collect(), next }))
}

/// Ends an open join without a follow-up, for good.
#[utoipa::path(post, path = "/joins/{id}/cancel", tag = "joins",
    params(("id" = String, Path), Where), request_body = Reason,
    responses((status = 200, body = Done)))]
pub(super) async fn cancel_join(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
    id: Named,
    mut query: Query,
    Body(Reason { reason }): Body<Reason>,
) -> Result<Safe<Done>, Problem> {
    let queue = &*query.queue(&desk)?;
    query.finish()?;
    let id = id.0.parse()?;
    let changed = desk.cancel_join(&caller, queue, id, reason.as_deref()).await?;
    Ok(Safe(Done { changed }))
}
