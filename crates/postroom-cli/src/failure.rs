//! How a command ends when it fails: what, why, what to do next, and a code that scripts can use.

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;

use postroom::ErrorKind;

use crate::render::{paint, style};

/// The codes that `--help` promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Anything without a code of its own.
    Error = 1,
    /// Wrong usage, or a value that breaks a limit. Nothing was written.
    Invalid = 2,
    /// No such message.
    NotFound = 3,
    /// The schema is missing, too old or too new.
    Schema = 4,
    /// The database does not answer, or not now.
    Unavailable = 5,
    /// A person stopped it between two chunks.
    Stopped = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    why: Option<String>,
    next: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), why: None, next: None }
    }

    /// The cause, with its causes.
    pub(crate) fn why(mut self, cause: &(dyn Error + 'static)) -> Self {
        let mut why = String::new();
        for cause in std::iter::successors(Some(cause), |&cause| cause.source()) {
            // A database's own message says it all; what is below repeats it.
            if let Some(sqlx::Error::Database(error)) = cause.downcast_ref() {
                why += error.message();
                break;
            }
            let cause = cause.to_string();
            // Drivers like to repeat their source.
            if !why.contains(&cause) {
                why += if why.is_empty() { "" } else { ": " };
                why += &cause;
            }
        }
        self.why = Some(why);
        self
    }

    /// What the person can do.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Passes the texts through a filter.
    pub(crate) fn map(mut self, clean: impl Fn(&str) -> String) -> Self {
        self.what = clean(&self.what);
        self.why = self.why.map(|why| clean(&why));
        self.next = self.next.map(|next| clean(&next));
        self
    }

    /// Says what it happened to.
    pub(crate) fn inside(mut self, what: &str) -> Self {
        self.what = format!("{what}: {}", self.what);
        self
    }

    /// What and why, for a table.
    pub(crate) fn in_one_line(&self) -> String {
        match &self.why {
            Some(why) => format!("{}: {why}", self.what),
            None => self.what.clone(),
        }
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// One line each for what, why and what next; control characters are shown, not sent.
    pub(crate) fn render(&self, color: bool) -> String {
        let mut text = format!("{} {}", paint("error:", style::BAD, color), line(&self.what));
        for (label, part) in [("  why:", &self.why), (" next:", &self.next)] {
            if let Some(part) = part {
                let _ = write!(text, "\n{} {}", paint(label, style::DIM, color), line(part));
            }
        }
        text
    }
}

/// A text of whatever origin as one line.
fn line(text: &str) -> String {
    crate::render::inert(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

impl From<postroom::Error> for Failure {
    fn from(error: postroom::Error) -> Self {
        let (exit, next) = match error.kind() {
            ErrorKind::Invalid | ErrorKind::Codec => {
                (Exit::Invalid, Some("change the value and run it again"))
            }
            ErrorKind::IdTaken => {
                (Exit::Error, Some("leave --id out to get a fresh one; nothing was written"))
            }
            ErrorKind::Schema => (Exit::Schema, None),
            ErrorKind::Unavailable => {
                let next = "check that the database runs and that --url points at it";
                (Exit::Unavailable, Some(next))
            }
            ErrorKind::Contention => {
                (Exit::Unavailable, Some("the database was busy; run it again"))
            }
            ErrorKind::CommitUnknown => {
                let next = "it may have been written; with --key a second run is safe";
                (Exit::Error, Some(next))
            }
            _ => (Exit::Error, None),
        };
        let mut failure = Self::new(exit, error.to_string());
        // The message of a schema error already names the command.
        if exit == Exit::Schema
            && let Some((what, next)) = failure.what.split_once("; ")
        {
            (failure.what, failure.next) = (what.to_owned(), Some(next.to_owned()));
        }
        if let Some(source) = error.source() {
            failure = failure.why(source);
        }
        match next {
            Some(next) => failure.next(next),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1_an_error_says_what_why_and_what_next() {
        let error = postroom::Error::new(ErrorKind::Unavailable, "the database does not answer")
            .with_source("connection refused\nby\u{1b}[31m the server");
        let expected = "error: the database does not answer\n  \
                        why: connection refused by\\u{1b}[31m the server\n \
                        next: check that the database runs and that --url points at it";
        assert_eq!(Failure::from(error).render(false), expected);
    }

    #[test]
    fn cli_1_exit_codes_follow_the_kind_of_error() {
        for (kind, exit) in [
            (ErrorKind::Invalid, 2),
            (ErrorKind::Codec, 2),
            (ErrorKind::IdTaken, 1),
            (ErrorKind::Schema, 4),
            (ErrorKind::Unavailable, 5),
            (ErrorKind::Contention, 5),
            (ErrorKind::CommitUnknown, 1),
            (ErrorKind::Database, 1),
        ] {
            let failure = Failure::from(postroom::Error::new(kind, "x"));
            assert_eq!(failure.exit() as u8, exit, "{kind:?}");
        }
    }

    #[test]
    fn sch_1_the_command_that_fixes_the_schema_is_the_next_step() {
        let text = "the database has no Postroom schema; run `postroom migrate`";
        let failure = Failure::from(postroom::Error::new(ErrorKind::Schema, text));
        let expected = "error: the database has no Postroom schema\n next: run `postroom migrate`";
        assert_eq!(failure.render(false), expected);
    }
}
