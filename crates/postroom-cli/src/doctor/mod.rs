//! Looks for what is wrong with a database, and knows what mends it.
//!
//! A check adds [findings](Finding) to a list and changes nothing. Further checks are appended to
//! the list by whoever has more to look at.

mod catalog;
mod mysql;
mod postgres;
mod queue;
mod rights;
mod sqlite;

use std::time::Duration;

use postroom::Timestamp;
use serde::Serialize;
use sqlx::Connection;

use crate::args;
use crate::failure::{Exit, Failure};
use crate::store::{Access, Target};
use crate::url::{Kind, Url};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    Warning,
    Problem,
}

/// What mends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fix {
    /// A statement for the database.
    Sql(String),
    /// A command for the shell.
    Command(String),
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Which check; these names are stable.
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    pub(crate) what: String,
    /// Why it matters.
    pub(crate) why: Option<String>,
    pub(crate) fix: Option<Fix>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, what: what.into(), why: None, fix: None }
    }

    pub(crate) fn warning(check: &'static str, what: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::ok(check, what) }
    }

    pub(crate) fn problem(check: &'static str, what: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::ok(check, what) }
    }

    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    pub(crate) fn sql(mut self, sql: impl Into<String>) -> Self {
        self.fix = Some(Fix::Sql(sql.into()));
        self
    }

    pub(crate) fn command(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(Fix::Command(command.into()));
        self
    }
}

/// What a check that can not look says.
pub(crate) fn blind(check: &'static str, error: &sqlx::Error) -> Finding {
    let why = match error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        other => other.to_string(),
    };
    Finding::warning(check, "could not be looked at").why(why)
}

/// Adds what a check finds, or that it could not look.
pub(crate) fn add(
    findings: &mut Vec<Finding>,
    check: &'static str,
    found: sqlx::Result<Vec<Finding>>,
) {
    match found {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(blind(check, &error)),
    }
}

/// One finding for many, when none of them is bad.
pub(crate) fn or_ok(found: Vec<Finding>, check: &'static str, what: &str) -> Vec<Finding> {
    if found.is_empty() { vec![Finding::ok(check, what)] } else { found }
}

/// Looks at everything.
pub(crate) async fn examine(target: &Target, args: &args::Doctor) -> Result<Vec<Finding>, Failure> {
    let mut findings = match target.url().kind {
        Kind::Postgres => postgres::examine(target, args).await?,
        Kind::MySql => mysql::examine(target, args).await?,
        Kind::Sqlite => sqlite::examine(target).await?,
    };
    findings.extend(encryption(target.url()));
    // A queue is only looked at when it can be: to open a SQLite file changes its journal mode.
    let blocked = findings.iter().any(|finding| {
        let matters = ["schema version", "journal mode"].contains(&finding.check);
        matters && finding.level != Level::Ok
    });
    if !blocked {
        // The schema was looked at, and a file that is locked could not be migrated.
        let store = target.open(Access::Migrate).await?;
        findings.extend(queue::examine(store.admin(), args).await);
        store.close().await;
    }
    Ok(findings)
}

/// A connection, or what every command says when there is none.
async fn connect<C: Connection>(target: &Target) -> Result<C, Failure> {
    let url = target.url();
    match tokio::time::timeout(Duration::from_secs(10), C::connect(url.as_str())).await {
        Ok(Ok(conn)) => Ok(conn),
        Ok(Err(error)) => {
            let what = format!("can not connect to {}", url.shown());
            let next = "check that the database runs, and user and password in --url";
            Err(Failure::new(Exit::Unavailable, what).why(&error).next(next))
        }
        Err(elapsed) => {
            let what = format!("no answer from {}", url.shown());
            let next = "check that the database runs and that --url points at it";
            Err(Failure::new(Exit::Unavailable, what).why(&elapsed).next(next))
        }
    }
}

/// What `check_schema` says.
async fn schema_version(target: &Target) -> Result<Finding, Failure> {
    let check = "schema version";
    let store = target.open(Access::Migrate).await?;
    let checked = store.admin().check_schema().await;
    store.close().await;
    let Err(error) = checked else {
        return Ok(Finding::ok(check, "fits this version of Postroom"));
    };
    let problem = error.to_string();
    let (what, next) = problem.split_once("; ").unwrap_or((&problem, ""));
    let finding = Finding::problem(check, what);
    Ok(match next.contains("postroom migrate") {
        true => finding.command("postroom migrate"),
        false => finding.why(next),
    })
}

/// How far the host's clock is from the database's. `before` was read before the database was
/// asked.
fn clock(before: Timestamp, database: Timestamp) -> Finding {
    let after = Timestamp::host_now();
    let skew = match (database < before, database > after) {
        (true, _) => before.since(database),
        (_, true) => database.since(after),
        _ => Duration::ZERO,
    };
    let check = "clock";
    if skew <= Duration::from_secs(5) {
        return Finding::ok(check, "this host and the database agree within 5 seconds");
    }
    let ahead = if database < before { "ahead of" } else { "behind" };
    let what = format!("this host is {}s {ahead} the database", skew.as_secs());
    let why = "the database's clock decides when messages are due and leases end; times that this \
        host names, such as --due-at, are off by that much";
    Finding::warning(check, what).why(why).command("timedatectl set-ntp true")
}

/// Whether a server elsewhere has to show who it is. Drivers take a connection that is not
/// encrypted when they are told nothing.
fn encryption(url: &Url) -> Option<Finding> {
    let (name, value) = match url.kind {
        Kind::Sqlite => return None,
        Kind::Postgres => ("sslmode", "verify-full"),
        Kind::MySql => ("ssl-mode", "VERIFY_IDENTITY"),
    };
    let check = "encryption";
    if url.is_local() {
        return Some(Finding::ok(check, "the server is on this host"));
    }
    let given = url.parameter(name).or_else(|| url.parameter(&name.replace('-', "")));
    if given.is_some_and(|given| given.eq_ignore_ascii_case(value)) {
        return Some(Finding::ok(check, "the server has to show a certificate for its name"));
    }
    let why = "whoever is on the way could read messages, or answer in its place";
    let what = "the connection may be in plain text, or to anybody";
    let fix = format!("add {name}={value} to the parameters of the URL");
    Some(Finding::warning(check, what).why(why).command(fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x13_a_server_elsewhere_has_to_show_who_it_is() {
        let level = |url: &str| encryption(&Url::parse(url).expect(url)).map(|found| found.level);
        assert_eq!(level("sqlite:a.db"), None);
        for fine in [
            "postgres://localhost/app",
            "mysql://127.0.0.1/app",
            "postgres://db.example/app?sslmode=verify-full",
            "postgres://db.example/app?a=b&sslmode=verify-full",
            "mysql://db.example/app?ssl-mode=VERIFY_IDENTITY",
        ] {
            assert_eq!(level(fine), Some(Level::Ok), "{fine}");
        }
        for bad in [
            "postgres://db.example/app",
            "postgres://db.example/app?sslmode=require",
            "postgres://db.example/sslmode=verify-full",
            "mysql://db.example/app?ssl-mode=REQUIRED",
        ] {
            assert_eq!(level(bad), Some(Level::Warning), "{bad}");
        }
    }

    #[test]
    fn a_clock_that_is_off_is_a_warning_in_both_directions() {
        let now = Timestamp::host_now();
        assert_eq!(clock(now, now).level, Level::Ok);
        let minute = Duration::from_secs(60);
        let behind = clock(now, now.saturating_add(minute));
        assert_eq!(behind.level, Level::Warning);
        assert!(behind.what.contains("behind the database"), "{behind:?}");
        let ahead = clock(now, now.saturating_sub(minute));
        assert_eq!(ahead.what, "this host is 60s ahead of the database");
    }
}
