//! One error type for the whole crate family.
//!
//! The kind says what the caller can do about it; the source keeps the driver's own words. Messages
//! are lower case, name the field, the limit and the actual value, and never repeat the source.

use std::error::Error as StdError;
use std::fmt;

/// The result of every fallible call in Postroom.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn StdError + Send + Sync>;

/// What went wrong, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument or a field breaks a limit. Nothing was written; fix the input.
    Invalid,
    /// The connection has no open transaction. Nothing was written; begin one first.
    NotInTransaction,
    /// A message id is taken by a message with other content, or the id of a join by one with
    /// other content. Nothing was written.
    IdTaken,
    /// No store has the routing key, or several have. Nothing was written; list it once.
    UnknownStore,
    /// A join takes no such member: it has ended, is full or not there, or the message is not.
    /// Nothing was written.
    Join,
    /// A deadlock or serialisation victim. The database rolled back; run the transaction again.
    Contention,
    /// The database can not be reached, is busy or refuses work for now. Try later.
    Unavailable,
    /// COMMIT was refused, or the transaction had already been rolled back. Nothing was written.
    RolledBack,
    /// The answer to COMMIT was lost. Retry with an idempotency key; it is safe either way.
    CommitUnknown,
    /// The schema is missing, too old or too new. Run the command that the message names.
    Schema,
    /// Bytes do not decode as what they should be.
    Codec,
    /// Any other error of the database.
    Database,
}

/// An error of Postroom: a [kind](Error::kind), a sentence, and the source if there is one.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    transient: bool,
    message: String,
    source: Option<Source>,
}

impl Error {
    /// An error of `kind` with a sentence for people.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let transient = matches!(kind, ErrorKind::Contention | ErrorKind::Unavailable);
        Self(Box::new(Inner { kind, transient, message: message.into(), source: None }))
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Says whether the same call may succeed later without a change of its input.
    #[must_use]
    pub fn transient(mut self, transient: bool) -> Self {
        self.0.transient = transient;
        self
    }

    /// A breach of a limit: the field, what is allowed, what was given, and the way out.
    pub(crate) fn limit(field: &str, allowed: impl fmt::Display, got: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Invalid, format!("{field} must be {allowed}, got {got}"))
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later without a change of its input.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.0.transient
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_and_unavailable_are_transient_by_default() {
        assert!(Error::new(ErrorKind::Contention, "deadlock").is_transient());
        assert!(Error::new(ErrorKind::Unavailable, "down").is_transient());
        assert!(!Error::new(ErrorKind::RolledBack, "refused").is_transient());
        assert!(Error::new(ErrorKind::RolledBack, "40001").transient(true).is_transient());
    }

    #[test]
    fn display_does_not_repeat_the_source() {
        let error = Error::new(ErrorKind::Database, "claim").with_source("disk on fire");
        assert_eq!(error.to_string(), "claim");
        assert_eq!(error.source().expect("has a source").to_string(), "disk on fire");
    }
}
