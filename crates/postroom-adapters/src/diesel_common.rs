//! What diesel and diesel-async share: the query, its answer, its errors.

use diesel::deserialize::QueryableByName;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use postroom_core::{Error, ErrorKind};

use crate::postgres::{Parameter, PgOutbox};

/// The answer of the statement that publishes.
#[derive(QueryableByName)]
pub(crate) struct Answer {
    #[diesel(sql_type = Text)]
    pub(crate) id: String,
}

pub(crate) type Query<'a> = BoxedSqlQuery<'a, Pg, SqlQuery>;

pub(crate) fn enqueue<'a>(outbox: &PgOutbox, parameters: &'a [Parameter<'a>]) -> Query<'a> {
    let query = sql_query(outbox.enqueue()).into_boxed();
    parameters.iter().fold(query, |query, parameter| match parameter {
        Parameter::Text(text) => query.bind::<Nullable<Text>, _>(text.as_deref()),
        Parameter::Bytes(bytes) => query.bind::<Binary, _>(*bytes),
        Parameter::Integer(number) => query.bind::<Nullable<BigInt>, _>(*number),
    })
}

pub(crate) fn notify(outbox: &PgOutbox) -> Query<'_> {
    sql_query(outbox.notify()).into_boxed().bind::<Text, _>(outbox.channel())
}

pub(crate) fn not_in_transaction() -> Error {
    Error::new(
        ErrorKind::NotInTransaction,
        "the connection has no open transaction; publish inside `conn.transaction(...)`, so that \
         the message commits with your change",
    )
}

/// The SQLSTATE, as far as diesel tells it: it keeps kinds of its own instead.
pub(crate) fn code(error: &DieselError) -> Option<&'static str> {
    let DieselError::DatabaseError(kind, _) = error else { return None };
    match kind {
        DatabaseErrorKind::UniqueViolation => Some("23505"),
        DatabaseErrorKind::SerializationFailure => Some("40001"),
        DatabaseErrorKind::ReadOnlyTransaction => Some("25006"),
        DatabaseErrorKind::ClosedConnection => Some("08006"),
        _ => Some("XX000"),
    }
}
