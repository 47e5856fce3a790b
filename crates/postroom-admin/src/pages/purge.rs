//! Deleting what is old: first what it would be, then a job.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Form, State};
use axum::response::{IntoResponse as _, Response};
use postroom_core::{Timestamp, store};

use super::act::value;
use super::flash::Flash;
use super::form::{Field, Sheet};
use super::frame::{Ask, Frame, Place};
use super::publish::is_theirs;
use super::words::{self, When};
use crate::api::bulk;
use crate::desk::purge::{Counted, Found};
use crate::desk::{Desk, Queue};
use crate::problem::Problem;

#[derive(Template)]
#[template(path = "purge.html")]
struct Page {
    frame: Frame,
    fields: Vec<Field>,
    problem: Option<String>,
    plan: Option<Plan>,
    /// Ages that a person chose, for the form that begins it.
    ages: Vec<(&'static str, String)>,
}

/// What would be deleted now.
struct Plan {
    rows: Vec<(&'static str, String, Option<When>)>,
    button: String,
    is_none: bool,
    deletes_keys: bool,
}

const AGES: [&str; 3] = ["done", "dead", "keys"];

fn sheet() -> Sheet {
    let age = |name, label, hint| Field::line(name, label, hint).example("keep them");
    Sheet::new(vec![
        age("done", "Done and discarded", "Settled longer ago than this, such as 12h or 30d"),
        age("dead", "Dead letters", "Dead for longer than this, such as 90d"),
        age("keys", "Idempotency keys", "A message that comes again later than this is a new one"),
    ])
}

/// The form; with ages in the address, what they would delete.
pub(super) async fn plan(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    desk.may_change()?;
    let queue = &*ask.queue()?;
    let mut sheet = sheet();
    if !AGES.iter().any(|name| ask.query.iter().any(|(key, _)| key == name)) {
        sheet.fill(|name| ["done", "keys"].contains(&name).then_some("30d"));
        return show(&desk, &ask, queue, sheet, None).await;
    }
    sheet.fill(|name| ask.get(name));
    match ages(&sheet) {
        Ok(purge) => {
            let found = desk.find_old(queue, &purge).await?;
            show(&desk, &ask, queue, sheet, Some(planned(&found, &purge))).await
        }
        Err(problem) => refuse(&desk, &ask, queue, sheet, &problem).await,
    }
}

/// Begins the job.
pub(super) async fn begin(
    State(desk): State<Arc<Desk>>,
    ask: Ask,
    Form(written): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let queue = &*ask.to_change(&written)?;
    let mut sheet = sheet();
    sheet.fill(|name| value(&written, name));
    let begun = ages(&sheet)
        .and_then(|purge| desk.purge(&ask.caller, queue, purge, value(&written, "why")));
    match begun {
        Ok(id) => {
            let flash = Flash::good("It has begun. You can leave this page.");
            Ok(flash.redirect(&ask.base, &format!("/jobs/{id}")))
        }
        Err(problem) if is_theirs(&problem) => refuse(&desk, &ask, queue, sheet, &problem).await,
        Err(problem) => Err(problem),
    }
}

fn ages(sheet: &Sheet) -> Result<store::Purge, Problem> {
    bulk::ages(sheet.get("done"), sheet.get("dead"), sheet.get("keys"))
}

fn planned(found: &Found, purge: &store::Purge) -> Plan {
    let now = Timestamp::host_now();
    let row = |label, counted: &Counted, age: Option<_>| {
        age.map(|_| (label, number(counted), counted.oldest.map(|at| When::new(at, now))))
    };
    let rows = [
        row("Done", &found.done, purge.done),
        row("Discarded", &found.discarded, purge.done),
        row("Dead letters", &found.dead, purge.dead),
    ];
    let parts = [&found.done, &found.discarded, &found.dead];
    let number: u64 = parts.iter().map(|counted| counted.number).sum();
    let more = parts.iter().any(|counted| counted.more);
    let all = words::many(number, "message", "messages");
    Plan {
        rows: rows.into_iter().flatten().collect(),
        button: match (number, more) {
            (_, true) => "Delete all of them for good".into(),
            (0, false) => "Delete keys and joins for good".into(),
            (_, false) => format!("Delete {all} for good"),
        },
        is_none: number == 0 && !more,
        deletes_keys: purge.keys.is_some() || purge.done.is_some(),
    }
}

fn number(counted: &Counted) -> String {
    let number = words::count(counted.number);
    if counted.more { format!("more than {number}") } else { number }
}

async fn refuse(
    desk: &Desk,
    ask: &Ask,
    queue: &Queue,
    mut sheet: Sheet,
    problem: &Problem,
) -> Result<Response, Problem> {
    sheet.refuse(problem);
    let page = show(desk, ask, queue, sheet, None).await?;
    Ok((problem.status, page).into_response())
}

async fn show(
    desk: &Desk,
    ask: &Ask,
    queue: &Queue,
    sheet: Sheet,
    plan: Option<Plan>,
) -> Result<Response, Problem> {
    let sample = queue.sampler.at_hand();
    let frame = Frame::new(desk, ask, queue, &sample, Place::Stores, "Purge");
    let ages = AGES.iter().filter_map(|name| Some((*name, sheet.get(name)?))).collect();
    ask.show(&Page { fields: sheet.all, problem: sheet.problem, plan, ages, frame })
}
