//! `postroom migrate --all`: every store of a configuration, several at a time.

use std::io::{ErrorKind as IoErrorKind, Write as _};
use std::path::Path;

use futures_util::{StreamExt as _, stream};
use postroom::ErrorKind;
use postroom::store::Migrated;
use serde_json::{Value, json};

use super::Report;
use crate::config::Loaded;
use crate::failure::{Exit, Failure};
use crate::fleet::{Found, Unseen};
use crate::render::{count, inert};
use crate::store::{Access, Target};
use crate::work::Work;

/// How many databases are migrated at the same time.
const AT_ONCE: usize = 4;

pub(super) async fn run(dry_run: bool, file: &Path, as_json: bool) -> Result<Report, Failure> {
    let config = Loaded::read(file, None)?;
    if config.stores.is_empty() {
        let what = format!("{} names no store", file.display());
        return Err(Failure::new(Exit::Invalid, what).next("add [stores.NAME] or [discover]"));
    }
    let (found, unseen) = config.stores.look().await;
    let names = found.iter().map(|found| found.store.id.as_str().chars().count());
    let mut rows =
        Rows { as_json, dry_run, width: names.max().unwrap_or(0), tally: Tally::default() };
    for Unseen { source, failure } in unseen {
        rows.write(&format!("discover.{source}"), &Became::Failed(failure))?;
    }
    let doing = if dry_run { "looking at" } else { "migrating" };
    let what = format!("{doing} {}", count(found.len(), "database"));
    let mut work = Work::begin(&what, "those that run", Some(found.len()))?;
    let one = |found: Found| async move { (found.store.id.clone(), bring(&found, dry_run).await) };
    let total = found.len();
    // Only what has begun is waited for when it is to stop.
    let mut waiting = found.into_iter();
    let mut running = stream::FuturesUnordered::new();
    let mut stopped = false;
    loop {
        stopped = stopped || work.must_stop().await;
        if !stopped {
            let room = AT_ONCE.saturating_sub(running.len());
            running.extend(waiting.by_ref().take(room).map(one));
        }
        let Some((id, became)) = running.next().await else { break };
        work.advance(1);
        work.around(|| rows.write(id.as_str(), &became))?;
    }
    drop(work);
    Ok(rows.report(total, stopped))
}

/// What became of a database.
enum Became {
    Migrated(Migrated),
    /// Nothing was done; whether something is to be done, and why.
    Foreseen(Option<String>),
    Failed(Failure),
}

async fn bring(found: &Found, dry_run: bool) -> Became {
    let target = &*found.store.place;
    let came = match dry_run {
        true => foresee(target).await.map(Became::Foreseen),
        // What is listed and gone must not come back empty.
        false if found.source.is_some() && target.is_missing() => Err(target.missing()),
        false => migrate(target).await.map(Became::Migrated),
    };
    came.unwrap_or_else(|failure| Became::Failed(failure.map(|text| target.url().scrub(text))))
}

async fn migrate(target: &Target) -> Result<Migrated, Failure> {
    let store = target.open(Access::Migrate).await?;
    let migrated = store.admin().migrate().await;
    store.close().await;
    Ok(migrated?)
}

/// Why there is something to do, if there is.
pub(super) async fn foresee(target: &Target) -> Result<Option<String>, Failure> {
    if target.is_missing() {
        return Ok(Some("there is no database file yet".to_owned()));
    }
    let store = target.open(Access::Migrate).await?;
    let checked = store.admin().check_schema().await;
    store.close().await;
    match checked {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Schema => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The lines, which are written as they come.
struct Rows {
    as_json: bool,
    dry_run: bool,
    width: usize,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    changed: usize,
    fine: usize,
    failed: usize,
}

impl Rows {
    fn write(&mut self, name: &str, became: &Became) -> Result<(), Failure> {
        match became {
            Became::Migrated(Migrated { from, to }) if from == to => self.tally.fine += 1,
            Became::Foreseen(None) => self.tally.fine += 1,
            Became::Migrated(_) | Became::Foreseen(Some(_)) => self.tally.changed += 1,
            Became::Failed(_) => self.tally.failed += 1,
        }
        let line = match self.as_json {
            true => became.document(name).to_string(),
            false => format!("{:<1$}  {2}", inert(name), self.width, inert(&became.text())),
        };
        let mut stdout = std::io::stdout().lock();
        match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
            // Whoever read has seen enough; the work goes on.
            Err(error) if error.kind() == IoErrorKind::BrokenPipe => Ok(()),
            Err(error) => {
                Err(Failure::new(Exit::Error, "can not write to standard output").why(&error))
            }
            Ok(()) => Ok(()),
        }
    }

    fn report(&self, total: usize, stopped: bool) -> Report {
        let Tally { changed, fine, failed } = self.tally;
        let done = if self.dry_run { "to migrate" } else { "migrated" };
        let mut note = format!("{changed} {done}, {fine} up to date, {failed} failed.");
        let left = total.saturating_sub(changed + fine + failed);
        if stopped && left > 0 {
            note += &format!(" Stopped; {left} were not begun.");
        }
        if self.dry_run {
            note += "\nNothing was changed: this was a dry run.";
        } else if failed + left > 0 {
            note += "\n next: mend what failed and run it again; what is up to date is left alone";
        }
        let report = Report::default().note(note);
        match (stopped && left > 0, failed) {
            (true, _) => report.ends_with(Exit::Stopped),
            (false, 0) => report,
            (false, _) => report.ends_with(Exit::Error),
        }
    }
}

impl Became {
    fn text(&self) -> String {
        match self {
            Self::Migrated(Migrated { from, to }) if from == to => {
                format!("up to date at version {to}")
            }
            Self::Migrated(Migrated { from: 0, to }) => format!("created at version {to}"),
            Self::Migrated(Migrated { from, to }) => format!("from version {from} to {to}"),
            Self::Foreseen(None) => "up to date".to_owned(),
            Self::Foreseen(Some(why)) => {
                format!("would migrate: {}", why.split("; ").next().unwrap_or(why))
            }
            Self::Failed(failure) => format!("error: {}", failure.in_one_line()),
        }
    }

    fn document(&self, name: &str) -> Value {
        match self {
            Self::Migrated(Migrated { from, to }) => {
                json!({ "store": name, "from": from, "to": to })
            }
            Self::Foreseen(why) => {
                json!({ "store": name, "dry_run": true, "up_to_date": why.is_none() })
            }
            Self::Failed(failure) => {
                json!({ "store": name, "error": failure.in_one_line() })
            }
        }
    }
}
