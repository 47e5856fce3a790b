//! What an error of the driver means: the one place that looks at SQLite's codes.

use postroom_core::{Error, ErrorKind};

// Primary result codes; extended ones have them in the low byte.
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const IO: i32 = 10;
const FULL: i32 = 13;
const CAN_NOT_OPEN: i32 = 14;

/// The kind of an error of any statement but COMMIT.
pub(super) fn classify(error: sqlx::Error) -> Error {
    let (kind, message) = match primary_code(&error) {
        Some(code) => meaning(code, &error.to_string()),
        None => match error {
            sqlx::Error::PoolTimedOut => {
                (ErrorKind::Unavailable, "no connection became free in time")
            }
            sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed => {
                (ErrorKind::Unavailable, "the database connection is gone")
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                (ErrorKind::Codec, "a stored value has another type than it should")
            }
            _ => (ErrorKind::Database, "the database driver reported an error"),
        },
    };
    Error::new(kind, message).with_source(error)
}

/// What a primary result code of SQLite means, and a sentence that says so; `text` is SQLite's.
pub(super) fn meaning(code: i32, text: &str) -> (ErrorKind, &'static str) {
    match code {
        BUSY | LOCKED => {
            (ErrorKind::Unavailable, "the database file is locked by another transaction")
        }
        IO | FULL | CAN_NOT_OPEN => {
            (ErrorKind::Unavailable, "the database file can not be read or written")
        }
        _ if text.contains("no such table") => (
            ErrorKind::Schema,
            "the database has no Postroom schema, or an old one; run `postroom migrate`",
        ),
        _ => (ErrorKind::Database, "the database refused a statement"),
    }
}

/// The kind of an error in reply to COMMIT.
pub(super) fn classify_commit(error: sqlx::Error) -> Error {
    let refused = primary_code(&error).is_some_and(|code| code != IO);
    if refused {
        let transient = matches!(primary_code(&error), Some(BUSY | LOCKED | FULL));
        let message = "the database refused to commit; nothing was written";
        return Error::new(ErrorKind::RolledBack, message).transient(transient).with_source(error);
    }
    Error::new(ErrorKind::CommitUnknown, "whether the transaction was committed is unknown")
        .with_source(error)
}

/// The error of a transaction that SQLite has already ended.
pub(super) fn already_ended(error: sqlx::Error) -> Error {
    Error::new(ErrorKind::RolledBack, "the database had already rolled the transaction back")
        .with_source(error)
}

/// Whether somebody else has the file right now.
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(BUSY | LOCKED))
}

fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<i32>().ok().map(|code| code & 0xff)
}
