//! sea-orm 2 on PostgreSQL.
//!
//! ```no_run
//! use postroom_adapters::{PgOutbox, sea_orm as adapter};
//! use postroom_core::Message;
//! use sea_orm::{ConnectionTrait, DatabaseConnection, TransactionTrait};
//!
//! # type Error = Box<dyn std::error::Error + Send + Sync>;
//! async fn place(outbox: &PgOutbox, database: &DatabaseConnection) -> Result<(), Error> {
//!     let tx = database.begin().await?;
//!     tx.execute_unprepared("insert into orders values (7, 1250)").await?;
//!     let message = Message::builder("order.placed").payload(r#"{"order_id":7}"#);
//!     adapter::publish_in(outbox, &tx, message).await?;
//!     tx.commit().await?;
//!     adapter::wake(outbox, database).await?;
//!     Ok(())
//! }
//! ```

use ::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr,
    Statement, Value,
};
use postroom_core::{Error, ErrorKind, IntoMessage, Result};

use crate::Enqueued;
use crate::postgres::{Parameter, PgOutbox, enqueued, not_woken, refused};

/// Publishes inside a transaction, nested or not.
///
/// # Errors
/// `Invalid` or `Codec` before anything is sent, also when the database is not PostgreSQL; your
/// transaction stays usable. After any error of the database PostgreSQL lets a transaction only
/// roll back: `IdTaken` when the id belongs to another message, `Contention` when the transaction
/// should be run again, or as it says.
pub async fn publish_in(
    outbox: &PgOutbox,
    tx: &DatabaseTransaction,
    message: impl IntoMessage,
) -> Result<Enqueued> {
    require_postgres(tx.get_database_backend())?;
    let message = outbox.check(message)?;
    let values = outbox.parameters(&message).map(value);
    let enqueue = Statement::from_sql_and_values(DbBackend::Postgres, outbox.enqueue(), values);
    let refused = |error: DbErr| refused(&message, code(&error).as_deref(), error);
    let row = tx.query_one_raw(enqueue).await.map_err(refused)?;
    let answer: Option<String> = match row {
        Some(row) => row.try_get("", "id").map_err(refused)?,
        None => None,
    };
    enqueued(&message, answer.as_deref().unwrap_or_default())
}

/// Wakes the dispatchers of all processes. Call it after the commit; forgetting it costs latency
/// only, and after a rollback it is harmless.
///
/// # Errors
/// As the database says. The message is committed all the same.
pub async fn wake(outbox: &PgOutbox, database: &DatabaseConnection) -> Result<()> {
    require_postgres(database.get_database_backend())?;
    let channel = [Value::from(outbox.channel())];
    let notify = Statement::from_sql_and_values(DbBackend::Postgres, outbox.notify(), channel);
    let woken = database.execute_raw(notify).await;
    woken.map(drop).map_err(|error| not_woken(code(&error).as_deref(), error))
}

fn require_postgres(backend: DbBackend) -> Result<()> {
    if backend == DbBackend::Postgres {
        return Ok(());
    }
    let problem = format!("the database must be PostgreSQL for this outbox, got {backend:?}");
    Err(Error::new(ErrorKind::Invalid, problem))
}

fn value(parameter: Parameter<'_>) -> Value {
    match parameter {
        Parameter::Text(text) => Value::String(text.map(|text| text.into_owned())),
        Parameter::Bytes(bytes) => Value::Bytes(Some(bytes.to_vec())),
        Parameter::Integer(number) => Value::BigInt(number),
    }
}

/// A connection that is gone has no code of its own.
fn code(error: &DbErr) -> Option<String> {
    use ::sea_orm::sqlx::Error as SqlxError;
    let (DbErr::Conn(source) | DbErr::Exec(source) | DbErr::Query(source)) = error else {
        return None;
    };
    let RuntimeErr::SqlxError(source) = source else { return None };
    match source.as_ref() {
        SqlxError::Database(error) => error.code().map(|code| code.into_owned()),
        SqlxError::Io(_) | SqlxError::WorkerCrashed => Some("08006".to_owned()),
        _ => None,
    }
}
