//! tokio-postgres, and deadpool-postgres, whose types give way to these.
//!
//! A client is not a transaction:
//!
//! ```compile_fail,E0308
//! # async fn place(outbox: &postroom_adapters::PgOutbox, client: &tokio_postgres::Client) {
//! # let message = postroom_core::Message::builder("order.placed");
//! postroom_adapters::tokio_postgres::publish_in(outbox, client, message).await;
//! # }
//! ```

use ::tokio_postgres::types::{ToSql, Type};
use ::tokio_postgres::{Client, Error as PgError, Transaction};
use postroom_core::{IntoMessage, Result};

use crate::Enqueued;
use crate::postgres::{Parameter, PgOutbox, enqueued, not_woken, refused};

/// Publishes inside a transaction or savepoint, in one round trip.
///
/// With deadpool-postgres write `&tx` all the same.
///
/// # Errors
/// `Invalid` or `Codec` before anything is sent; your transaction stays usable. After any error of
/// the database PostgreSQL lets a transaction only roll back: `IdTaken` when the id belongs to
/// another message, `Contention` when the transaction should be run again, or as it says.
pub async fn publish_in(
    outbox: &PgOutbox,
    tx: &Transaction<'_>,
    message: impl IntoMessage,
) -> Result<Enqueued> {
    let message = outbox.check(message)?;
    let parameters = outbox.parameters(&message);
    let bound: Vec<_> = parameters.iter().map(bind).collect();
    let refused = |error: PgError| refused(&message, code(&error).as_deref(), error);
    let row = tx.query_typed_one(outbox.enqueue(), &bound).await.map_err(refused)?;
    enqueued(&message, row.try_get("id").map_err(refused)?)
}

/// Wakes the dispatchers of all processes. Call it after the commit; forgetting it costs latency
/// only, and after a rollback it is harmless.
///
/// # Errors
/// As the database says. The message is committed all the same.
pub async fn wake(outbox: &PgOutbox, client: &Client) -> Result<()> {
    let channel = [(&outbox.channel() as &(dyn ToSql + Sync), Type::TEXT)];
    let woken = client.query_typed_one(outbox.notify(), &channel).await;
    woken.map(drop).map_err(|error| not_woken(code(&error).as_deref(), error))
}

fn bind<'a>(parameter: &'a Parameter<'_>) -> (&'a (dyn ToSql + Sync), Type) {
    match parameter {
        Parameter::Text(text) => (text, Type::TEXT),
        Parameter::Bytes(bytes) => (bytes, Type::BYTEA),
        Parameter::Integer(number) => (number, Type::INT8),
    }
}

/// A connection that is gone has no code of its own.
fn code(error: &PgError) -> Option<String> {
    let lost = || error.is_closed().then(|| "08006".to_owned());
    error.code().map(|state| state.code().to_owned()).or_else(lost)
}
