//! Joins: what waits for many messages, and how many of them are in.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use postroom_core::store::{JoinMember, JoinRecord, JoinState, ListJoins, MemberOutcome};
use postroom_core::{JoinId, MessageId, Timestamp};

use super::frame::{Ask, Frame, Link, Place};
use super::list::capital;
use super::words::{self, When};
use crate::desk::Desk;
use crate::problem::Problem;

const MEMBERS: u32 = 100;
const STATES: [JoinState; 4] =
    [JoinState::Open, JoinState::Succeeded, JoinState::Failed, JoinState::Cancelled];

#[derive(Template)]
#[template(path = "joins.html")]
struct Joins {
    frame: Frame,
    tabs: Vec<Link>,
    rows: Vec<Row>,
    older: Option<String>,
    is_filtered: bool,
}

#[derive(Template)]
#[template(path = "join.html")]
struct OneJoin {
    frame: Frame,
    join: Row,
    members: Vec<Member>,
    next: Option<String>,
    can_cancel: bool,
}

struct Row {
    id: String,
    short: String,
    href: String,
    class: &'static str,
    state: String,
    expected: u32,
    attached: u32,
    done: u32,
    dead: u32,
    settled: u32,
    created: When,
    ended: Option<When>,
    follow_up: Option<Member>,
}

struct Member {
    id: String,
    href: String,
    class: &'static str,
    state: &'static str,
}

impl Row {
    fn new(join: &JoinRecord, frame: &Frame, now: Timestamp) -> Self {
        let class = match join.state {
            JoinState::Open => "info",
            JoinState::Succeeded => "good",
            JoinState::Failed => "bad",
            JoinState::Cancelled => "",
        };
        let follow_up = |id: MessageId| Member {
            id: id.to_string(),
            href: frame.message(&id),
            class: "",
            state: "",
        };
        Self {
            id: join.id.to_string(),
            short: words::short(join.id),
            href: frame.to(&format!("/joins/{}", join.id)),
            class,
            state: capital(join.state.as_str()),
            expected: join.expected,
            attached: join.attached,
            done: join.done,
            dead: join.dead,
            settled: join.done + join.dead,
            created: When::new(join.created_at, now),
            ended: join.ended_at.map(|at| When::new(at, now)),
            follow_up: join.follow_up.map(follow_up),
        }
    }
}

pub(super) async fn joins(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let sample = queue.sampler.at_hand();
    let wanted = ask.get("state");
    let list = ListJoins {
        state: wanted.map(state).transpose()?,
        before: ask.get("before").map(str::parse).transpose()?,
        ..ListJoins::default()
    };
    let found = queue.store.joins(&list).await?;
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Joins, "Joins");
    let now = Timestamp::host_now();
    let last = found.last().filter(|_| found.len() == list.limit as usize);
    let older = last.map(|join| {
        let before = join.id.to_string();
        frame.with("/joins", &[("state", wanted.unwrap_or_default()), ("before", &before)])
    });
    let page = Joins {
        tabs: tabs(&frame, wanted),
        rows: found.iter().map(|join| Row::new(join, &frame, now)).collect(),
        older,
        is_filtered: wanted.is_some(),
        frame,
    };
    ask.show(&page)
}

fn state(word: &str) -> Result<JoinState, Problem> {
    let found = STATES.into_iter().find(|state| state.as_str() == word);
    found.ok_or_else(|| {
        let known = STATES.map(JoinState::as_str).join(", ");
        Problem::invalid(format!("state must be one of {known}; got {word:?}"))
    })
}

fn tabs(frame: &Frame, wanted: Option<&str>) -> Vec<Link> {
    let all = std::iter::once("").chain(STATES.map(JoinState::as_str));
    let tab = |word: &str| Link {
        label: if word.is_empty() { "All".to_owned() } else { capital(word) },
        href: frame.with("/joins", &[("state", word)]),
        current: wanted.unwrap_or_default() == word,
    };
    all.map(tab).collect()
}

pub(super) async fn join(
    State(desk): State<Arc<Desk>>,
    Path(id): Path<String>,
    ask: Ask,
) -> Result<Response, Problem> {
    let queue = &*ask.queue()?;
    let id: JoinId = id.parse()?;
    let found = queue.store.join(id).await?;
    let found = found.ok_or_else(|| Problem::not_found(format!("no join {id} in {queue}")))?;
    let after = ask.get("after").map(str::parse).transpose()?;
    let members = queue.store.join_members(id, after, MEMBERS).await?;
    let sample = queue.sampler.at_hand();
    let frame = Frame::new(&desk, &ask, queue, &sample, Place::Joins, "Join");
    let last = members.last().filter(|_| members.len() == MEMBERS as usize);
    let next = last.map(|member| {
        let after = member.message.to_string();
        frame.with(&format!("/joins/{id}"), &[("after", &after)])
    });
    let page = OneJoin {
        join: Row::new(&found, &frame, Timestamp::host_now()),
        members: members.iter().map(|one| member(one, &frame)).collect(),
        next,
        can_cancel: frame.may_operate && found.state == JoinState::Open,
        frame,
    };
    ask.show(&page)
}

fn member(member: &JoinMember, frame: &Frame) -> Member {
    let (class, state) = match member.outcome {
        Some(MemberOutcome::Done) => ("good", "Done"),
        Some(MemberOutcome::Dead) => ("bad", "Dead"),
        None => ("", "Not settled"),
    };
    Member { id: member.message.to_string(), href: frame.message(&member.message), class, state }
}
