//! What an error of the driver means to a caller. No other module looks at error numbers.

use postroom_core::{Error, ErrorKind};
use sqlx::mysql::MySqlDatabaseError;

/// The error of a statement; `what` says what was going on.
pub(super) fn classify(what: &str, error: sqlx::Error) -> Error {
    let (kind, text) = match number_of(&error) {
        // Our own procedures say so of a rival that came and went.
        Some(1644) if state_of(&error).as_deref() == Some("40001") => {
            (ErrorKind::Contention, "another transaction was in the way; run it again")
        }
        Some(number) => from_number(number),
        None => from_driver(&error),
    };
    Error::new(kind, format!("{what}: {text}")).with_source(error)
}

/// The error of COMMIT, where the difference between "no" and "no answer" matters.
pub(super) fn classify_commit(error: sqlx::Error) -> Error {
    let (kind, transient, text) = match number_of(&error) {
        Some(1213 | 1205 | 1020) => (ErrorKind::RolledBack, true, "chose this one to roll back"),
        Some(number) if is_connection_lost(number) => (ErrorKind::CommitUnknown, false, LOST),
        Some(_) => (ErrorKind::RolledBack, false, "refused it"),
        None => (ErrorKind::CommitUnknown, false, LOST),
    };
    Error::new(kind, format!("commit: the database {text}")).transient(transient).with_source(error)
}

const LOST: &str = "did not say whether it took effect";

/// A savepoint is not there: the transaction in which it was taken is over.
pub(super) fn is_no_savepoint(error: &sqlx::Error) -> bool {
    number_of(error) == Some(1305)
}

/// A unique key is taken.
pub(super) fn is_duplicate(error: &sqlx::Error) -> bool {
    number_of(error) == Some(1062)
}

fn number_of(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

fn state_of(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(|code| code.into_owned())
}

fn from_number(number: u16) -> (ErrorKind, &'static str) {
    match number {
        // A deadlock, a lock that was waited for too long, a row that changed since the snapshot.
        1213 | 1205 | 1020 => {
            (ErrorKind::Contention, "another transaction was in the way; run it again")
        }
        // A table, a procedure, a column, the arguments of a procedure.
        1146 | 1305 | 1054 | 1318 => (
            ErrorKind::Schema,
            "the Postroom schema is missing or does not fit; run `postroom migrate`",
        ),
        1049 | 1046 => (ErrorKind::Schema, "there is no such database"),
        1040 | 1203 | 1226 => (ErrorKind::Unavailable, "the database takes no work now"),
        1290 | 1836 => (ErrorKind::Unavailable, "the database is read-only"),
        1317 | 1969 | 3024 => (ErrorKind::Unavailable, "the statement was cut short"),
        number if is_connection_lost(number) => (ErrorKind::Unavailable, "the connection was lost"),
        _ => (ErrorKind::Database, "the database refused it"),
    }
}

/// Shutdown, a killed or timed out connection, errors of the network.
fn is_connection_lost(number: u16) -> bool {
    matches!(number, 1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1927 | 4031)
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
    fn numbers_map_to_what_the_caller_can_do() {
        for (number, kind) in [
            (1213, ErrorKind::Contention),
            (1205, ErrorKind::Contention),
            (1146, ErrorKind::Schema),
            (1305, ErrorKind::Schema),
            (1040, ErrorKind::Unavailable),
            (1053, ErrorKind::Unavailable),
            (1836, ErrorKind::Unavailable),
            (1062, ErrorKind::Database),
        ] {
            assert_eq!(from_number(number).0, kind, "{number}");
        }
    }

    #[test]
    fn pub_11_a_commit_without_an_answer_is_unknown() {
        let error = classify_commit(sqlx::Error::Io(std::io::ErrorKind::BrokenPipe.into()));
        assert_eq!(error.kind(), ErrorKind::CommitUnknown);
        assert!(!error.is_transient());
    }
}
