//! What the error codes of PostgreSQL mean to a caller, whatever the driver.

use postroom_core::ErrorKind;

/// What it means, and a half-sentence that says so.
pub(crate) fn meaning(code: &str) -> (ErrorKind, &'static str) {
    match code {
        "40001" | "40P01" | "55P03" => {
            (ErrorKind::Contention, "another transaction was in the way; run it again")
        }
        "25P02" => (ErrorKind::RolledBack, "the transaction has failed and can only roll back"),
        "42P01" | "3F000" | "42703" | "42883" => (
            ErrorKind::Schema,
            "the Postroom schema is missing or does not fit; run `postroom migrate`",
        ),
        "57P01" | "57P02" | "57P03" | "53300" => {
            (ErrorKind::Unavailable, "the database takes no work now")
        }
        // A standby after a failover: the pool will find the primary again.
        "25006" => (ErrorKind::Unavailable, "the database is read-only"),
        // The server ended an idle or stuck session of ours.
        "25P03" => (ErrorKind::Unavailable, "the session timed out"),
        code if code.starts_with("08") => (ErrorKind::Unavailable, "the connection was lost"),
        _ => (ErrorKind::Database, "the database refused it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_map_to_what_the_caller_can_do() {
        for (code, kind) in [
            ("40001", ErrorKind::Contention),
            ("40P01", ErrorKind::Contention),
            ("55P03", ErrorKind::Contention),
            ("25P02", ErrorKind::RolledBack),
            ("42P01", ErrorKind::Schema),
            ("3F000", ErrorKind::Schema),
            ("57P01", ErrorKind::Unavailable),
            ("08006", ErrorKind::Unavailable),
            ("53300", ErrorKind::Unavailable),
            ("25006", ErrorKind::Unavailable),
            ("23505", ErrorKind::Database),
        ] {
            assert_eq!(meaning(code).0, kind, "{code}");
        }
    }
}
