//! P11: what hundreds of databases cost while they are idle, and what becomes of their messages
//! when processes die and databases come and go. Two processes serve all of them.

mod crowd;
mod node;
mod postgres;
mod sqlite;

use std::time::Duration;

use anyhow::Context as _;

use crate::progress::say;
use crate::report::{Case, Figure, Series, Unit};

/// How long an idle store takes to be asked as seldom as it ever is.
const COME_TO_REST: Duration = Duration::from_secs(120);

/// Two turns of the longest wait.
const LOOK_FOR: Duration = Duration::from_secs(60);

/// What was seen of one kind of fleet.
struct Seen {
    of: String,
    cases: Vec<Case>,
}

impl Seen {
    fn new(of: String) -> Self {
        Self { of, cases: Vec::new() }
    }

    fn say(&mut self, what: &str, unit: Unit, value: f64) {
        self.cases.push(Case::single(format!("{}: {what}", self.of), unit, value));
    }

    /// How long something took.
    fn took(&mut self, what: &str, took: Duration) {
        self.say(what, Unit::Seconds, took.as_secs_f64());
    }

    /// What has a bar.
    fn within(&mut self, what: &str, unit: Unit, value: f64, bar: f64) {
        let case = Case::single(format!("{}: {what}", self.of), unit, value);
        self.cases.push(case.bar(Series::OURS, bar));
    }
}

/// Measures both kinds of fleets.
pub(crate) async fn measure(url: &str, counts: &[usize]) -> anyhow::Result<Figure> {
    let mut cases = Vec::new();
    for (at, &count) in counts.iter().enumerate() {
        let is_last = at + 1 == counts.len();
        say("P11", &format!("{count} databases: minutes, most of them to see nothing happen"));
        cases.extend(postgres::measure(url, count, is_last).await?);
        if is_last {
            say("P11", &format!("{count} files: minutes again"));
            cases.extend(sqlite::measure(count).await?);
        }
    }
    let figure = Figure::new("P11", "Many databases: what they cost while they are idle")
        .note("two processes serve all of them; each has 20 connections");
    Ok(cases.into_iter().fold(figure, Figure::case))
}

/// What a child process does.
pub(crate) async fn run_node(task: &str) -> anyhow::Result<()> {
    node::run(serde_json::from_str(task).context("a task")?).await
}
