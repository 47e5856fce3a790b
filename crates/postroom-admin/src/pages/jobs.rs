//! Acting on everything that matches: what it would be, and how far it is.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use postroom_core::Timestamp;
use postroom_core::store::Act;

use super::act::act_of;
use super::filter::Filter;
use super::frame::{Ask, Frame, Place};
use super::list::capital;
use super::words::{self, When};
use crate::desk::act::Plan;
use crate::desk::jobs::{Job, JobState, Pace, Task};
use crate::desk::{self, Desk};
use crate::problem::Problem;

const MOST_TOPICS: usize = 12;

#[derive(Template)]
#[template(path = "plan.html")]
struct Planned {
    frame: Frame,
    act: &'static str,
    verb: String,
    fields: Vec<(&'static str, String)>,
    said: Vec<String>,
    matched: String,
    is_none: bool,
    more: bool,
    topics: Vec<(String, String)>,
    further: usize,
    oldest: Option<When>,
    limit: String,
    rate: u32,
    back: String,
}

/// A dry run: what it would be done to.
pub(super) async fn plan(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let act = act_of(ask.get("act"))?;
    let now = Timestamp::host_now();
    let filter = Filter::of(&ask.query);
    // What the job will mean by itself is said here already.
    let filter =
        if filter.get("status").is_empty() { filter.with("status", "dead") } else { filter };
    let plan = desk.plan(queue, act, &filter.list()?).await?;
    let sample = queue.sampler.at_hand();
    let place = if filter.get("status") == "dead" { Place::Dead } else { Place::Messages };
    let title = format!("{} all that match", capital(act.as_str()));
    let frame = Frame::new(&desk, &ask, queue, &sample, place, title);
    ask.show(&planned(frame, act, &filter, plan, ask.get("limit"), now))
}

fn planned(
    frame: Frame,
    act: Act,
    filter: &Filter,
    plan: Plan,
    limit: Option<&str>,
    now: Timestamp,
) -> Planned {
    let mut topics: Vec<_> = plan.topics.into_iter().collect();
    topics.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let further = topics.len().saturating_sub(MOST_TOPICS);
    topics.truncate(MOST_TOPICS);
    Planned {
        act: act.as_str(),
        verb: capital(act.as_str()),
        fields: filter.pairs().into_iter().map(|(name, value)| (name, value.to_owned())).collect(),
        said: filter.words(),
        matched: words::many(plan.matched, "message", "messages"),
        is_none: plan.matched == 0 && !plan.more,
        more: plan.more,
        topics: topics.into_iter().map(|(topic, n)| (topic, words::count(n))).collect(),
        further,
        oldest: plan.oldest.map(|at| When::new(at, now)),
        limit: limit.unwrap_or_default().to_owned(),
        rate: Pace::RATE,
        back: frame.with("/messages", &filter.pairs()),
        frame,
    }
}

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    frame: Frame,
    jobs: Vec<Row>,
    is_one: bool,
}

struct Row {
    id: String,
    short: String,
    href: String,
    what: String,
    target: String,
    place: String,
    class: &'static str,
    state: String,
    applied: String,
    /// What was done to them.
    done: &'static str,
    refused: Vec<String>,
    too_new: u64,
    by: String,
    reason: Option<String>,
    began: When,
    ended: Option<When>,
    error: Option<String>,
    /// Of how many; nothing when nobody knows.
    limit: Option<u64>,
    applied_number: u64,
    can_cancel: bool,
}

impl Row {
    fn new(job: &Job, frame: &Frame, now: Timestamp) -> Self {
        let progress = job.progress();
        let class = match progress.state {
            JobState::Running => "info",
            JobState::Done => "good",
            JobState::Cancelled => "",
            JobState::Failed => "bad",
        };
        let refused = progress.refused.iter();
        let (limit, done) = match &job.task {
            Task::Act { act, pace, .. } => (pace.limit, act.done()),
            Task::Purge(_) if progress.applied == 1 => (None, "message deleted"),
            Task::Purge(_) => (None, "messages deleted"),
        };
        Self {
            id: job.id.to_string(),
            short: words::short(job.id),
            href: frame.to(&format!("/jobs/{}", job.id)),
            what: capital(job.task.action()),
            target: desk::words::task(&job.task),
            place: format!("{}/{}", job.database, job.kind),
            class,
            state: capital(progress.state.as_str()),
            applied: words::count(progress.applied),
            done,
            refused: refused.map(|(why, n)| format!("{} {why}", words::count(*n))).collect(),
            too_new: progress.too_new,
            by: job.by.clone(),
            reason: job.reason.clone(),
            began: When::new(job.began_at, now),
            ended: progress.ended_at.map(|at| When::new(at, now)),
            error: progress.error,
            limit,
            applied_number: progress.applied,
            can_cancel: frame.may_operate && progress.state == JobState::Running,
        }
    }
}

pub(super) async fn jobs(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let jobs = desk.jobs();
    show(&desk, &ask, &jobs, false).await
}

pub(super) async fn job(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    ask: Ask,
) -> Result<Response, Problem> {
    let job = desk.job(id.parse()?)?;
    show(&desk, &ask, &[job], true).await
}

async fn show(
    desk: &Desk,
    ask: &Ask,
    jobs: &[Arc<Job>],
    is_one: bool,
) -> Result<Response, Problem> {
    let frame = Frame::around(desk, ask, Place::Jobs, "Jobs")?;
    let now = Timestamp::host_now();
    let jobs = jobs.iter().map(|job| Row::new(job, &frame, now)).collect();
    ask.show(&Jobs { jobs, is_one, frame })
}
