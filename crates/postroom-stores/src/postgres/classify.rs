//! What an error of the driver means to a caller.

use postroom_core::{Error, ErrorKind};
use sqlx::error::DatabaseError;

use crate::sqlstate;

/// The error of a statement; `what` says what was going on.
pub(crate) fn classify(what: &str, error: sqlx::Error) -> Error {
    let (kind, text) = match code_of(&error).as_deref() {
        Some(code) => sqlstate::meaning(code),
        None => from_driver(&error),
    };
    Error::new(kind, format!("{what}: {text}")).with_source(error)
}

/// The error of COMMIT, where the difference between "no" and "no answer" matters.
pub(crate) fn classify_commit(error: sqlx::Error) -> Error {
    let (kind, transient, text) = match code_of(&error).as_deref() {
        Some("40003") => (ErrorKind::CommitUnknown, false, LOST),
        Some(code) if code.starts_with("08") || code.starts_with("57P0") => {
            (ErrorKind::CommitUnknown, false, LOST)
        }
        Some("40001" | "40P01") => (ErrorKind::RolledBack, true, "chose this one to roll back"),
        Some(_) => (ErrorKind::RolledBack, false, "refused it"),
        None => (ErrorKind::CommitUnknown, false, LOST),
    };
    Error::new(kind, format!("commit: the database {text}")).transient(transient).with_source(error)
}

const LOST: &str = "did not say whether it took effect";

/// Whether the server says that there is no open transaction.
pub(crate) fn is_no_transaction(error: &sqlx::Error) -> bool {
    code_of(error).as_deref() == Some("25P01")
}

/// Whether a row with this key is there.
pub(crate) fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(DatabaseError::is_unique_violation)
}

fn code_of(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(|code| code.into_owned())
}

fn from_driver(error: &sqlx::Error) -> (ErrorKind, &'static str) {
    match error {
        sqlx::Error::Io(_) => (ErrorKind::Unavailable, "the connection was lost"),
        sqlx::Error::PoolTimedOut => (ErrorKind::Unavailable, "no free connection in time"),
        sqlx::Error::PoolClosed => (ErrorKind::Unavailable, "the pool is closed"),
        sqlx::Error::WorkerCrashed => (ErrorKind::Unavailable, "the driver stopped"),
        sqlx::Error::Tls(_) => (ErrorKind::Unavailable, "no TLS connection"),
        sqlx::Error::Configuration(_) => {
            (ErrorKind::Invalid, "the connection string is not understood")
        }
        _ => (ErrorKind::Database, "an answer of the database is not understood"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pub_11_a_commit_without_an_answer_is_unknown() {
        let error = classify_commit(sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into()));
        assert_eq!(error.kind(), ErrorKind::CommitUnknown);
        assert!(!error.is_transient());
    }

    #[test]
    fn a_full_pool_is_transient() {
        let error = classify("claim", sqlx::Error::PoolTimedOut);
        assert!(error.is_transient());
        assert_eq!(error.to_string(), "claim: no free connection in time");
    }
}
