//! `postroom purge`: deletes what is old, chunk by chunk until nothing of it is left.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use postroom::WorkQueue;
use postroom::store::{self, Stats, Store};
use serde_json::json;

use super::Report;
use super::letters::Desk;
use crate::args;
use crate::ask::confirm;
use crate::failure::{Exit, Failure};
use crate::render::{Screen, count, json, thousands, time};
use crate::work::Work;

/// How many of each are deleted in one transaction.
const CHUNK: u32 = 1_000;

pub(super) async fn run(
    args: &args::Purge,
    engine: Arc<dyn Store>,
    desk: &Desk<'_>,
) -> Result<Report, Failure> {
    let stats = desk.store.stats().await?;
    if args.dry_run {
        return Ok(foresee(args, &stats, desk));
    }
    eprint!("Delete for good, from the {}:\n{}", desk.place, words(args, &stats, desk.screen));
    if !confirm("Delete them?", args.yes)? {
        return Ok(Report::default().note("Nothing was deleted.").ends_with(Exit::Error));
    }
    let purge = store::Purge { done: args.done, dead: args.dead, keys: args.keys, limit: CHUNK };
    let queue = WorkQueue::new(engine);
    let mut work = Work::begin("Deleting", "the chunk that runs", None)?;
    let mut gone = Gone::default();
    while !gone.complete && !gone.stopped {
        let chunk = queue.purge(&purge).await?;
        gone.messages += u64::from(chunk.messages);
        gone.keys += u64::from(chunk.keys);
        gone.joins += u64::from(chunk.joins);
        gone.complete = !chunk.more;
        work.advance((chunk.messages + chunk.keys + chunk.joins) as usize);
        gone.stopped = !gone.complete && work.must_stop().await;
    }
    drop(work);
    Ok(gone.report(desk.json))
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Gone {
    messages: u64,
    keys: u64,
    joins: u64,
    complete: bool,
    stopped: bool,
}

impl Gone {
    fn report(&self, as_json: bool) -> Report {
        let report = Report::data(match as_json {
            true => json::document(&json!({
                "messages": self.messages,
                "keys": self.keys,
                "joins": self.joins,
                "stopped": self.stopped,
            })),
            false => format!(
                "Deleted {}, {} and {}.\n",
                count(self.messages as usize, "message"),
                count(self.keys as usize, "key"),
                count(self.joins as usize, "join"),
            ),
        });
        match self.stopped {
            true => report.note("Stopped; there may be more.").ends_with(Exit::Stopped),
            false => report,
        }
    }
}

fn foresee(args: &args::Purge, stats: &Stats, desk: &Desk<'_>) -> Report {
    let now = desk.screen.now;
    let before = |age: Option<Duration>| age.map(|age| time::rfc3339(now.saturating_sub(age)));
    if desk.json {
        return Report::data(json::document(&json!({
            "dry_run": true,
            "done_before": before(args.done),
            "dead_before": before(args.dead),
            "keys_before": before(args.keys),
            "done_at_most": args.done.map(|_| stats.done),
            "dead_at_most": args.dead.or(args.done).map(|_| stats.dead),
        })));
    }
    let words = words(args, stats, desk.screen);
    let report = Report::data(format!("Would delete, from the {}:\n{words}", desk.place));
    report.note("Nothing was deleted: this was a dry run.")
}

/// What is meant, a line each. Stores do not count by age, so there is only an upper bound.
fn words(args: &args::Purge, stats: &Stats, screen: &Screen) -> String {
    let mut text = String::new();
    let mut line = |age: Option<Duration>, what: &str, bound: String| {
        if let Some(age) = age {
            let before = time::absolute(screen.now.saturating_sub(age));
            let _ = writeln!(text, "  {what} before {before}{bound}");
        }
    };
    let in_all = |n: u64, which: &str| format!(" ({which} in all: {})", thousands(n as usize));
    line(args.done, "messages done or discarded, and joins ended", in_all(stats.done, "done"));
    line(args.dead, "messages that died otherwise", in_all(stats.dead, "dead"));
    line(args.keys, "keys of messages that ended", String::new());
    text
}
