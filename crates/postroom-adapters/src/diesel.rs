//! diesel on PostgreSQL.
//!
//! ```no_run
//! use diesel::{Connection, PgConnection, RunQueryDsl, sql_query};
//! use postroom_adapters::{PgOutbox, StoreConfig, diesel as adapter};
//! use postroom_core::Message;
//!
//! type Error = Box<dyn std::error::Error + Send + Sync>;
//!
//! fn place(outbox: &PgOutbox, conn: &mut PgConnection) -> Result<(), Error> {
//!     conn.transaction::<_, Error, _>(|conn| {
//!         sql_query("insert into orders values (7, 1250)").execute(conn)?;
//!         let message = Message::builder("order.placed").payload(r#"{"order_id":7}"#);
//!         adapter::publish_in(outbox, conn, message)?;
//!         Ok(())
//!     })?;
//!     adapter::wake(outbox, conn)?;
//!     Ok(())
//! }
//! # fn main() -> Result<(), Error> {
//! # let mut conn = PgConnection::establish("postgres://localhost/shop")?;
//! # place(&PgOutbox::new(&StoreConfig::default())?, &mut conn)
//! # }
//! ```

use ::diesel::connection::{Connection, TransactionManager};
use ::diesel::pg::PgConnection;
use ::diesel::query_dsl::RunQueryDsl;
use ::diesel::result::Error as DieselError;
use postroom_core::{IntoMessage, Result};

use crate::Enqueued;
use crate::diesel_common::{Answer, code, enqueue, not_in_transaction, notify};
use crate::postgres::{PgOutbox, enqueued, not_woken, refused};

/// Publishes inside [`conn.transaction(...)`](Connection::transaction), nested or not.
///
/// A pooled connection gives way to the connection itself: write `publish_in(&outbox, conn, ...)`
/// all the same.
///
/// # Errors
/// `NotInTransaction` when diesel knows of no open transaction, also when you sent `BEGIN` behind
/// its back; `Invalid` or `Codec` for a bad message. In these cases nothing was sent and your
/// transaction stays usable. After any error of the database PostgreSQL lets a transaction only
/// roll back: `IdTaken` when the id belongs to another message, `Contention` when the transaction
/// should be run again. diesel does not tell most other errors apart: they are `Database`, with
/// diesel's own error as the source.
pub fn publish_in(
    outbox: &PgOutbox,
    conn: &mut PgConnection,
    message: impl IntoMessage,
) -> Result<Enqueued> {
    let message = outbox.check(message)?;
    let refused = |error: DieselError| refused(&message, code(&error), error);
    if !is_in_transaction(conn).map_err(refused)? {
        return Err(not_in_transaction());
    }
    let parameters = outbox.parameters(&message);
    let answer: Answer = enqueue(outbox, &parameters).get_result(conn).map_err(refused)?;
    enqueued(&message, &answer.id)
}

/// Wakes the dispatchers of all processes. Call it after the commit and not in the transaction;
/// forgetting it costs latency only, and after a rollback it is harmless.
///
/// # Errors
/// As the database says. The message is committed all the same.
pub fn wake(outbox: &PgOutbox, conn: &mut PgConnection) -> Result<()> {
    let woken = notify(outbox).execute(conn);
    woken.map(drop).map_err(|error| not_woken(code(&error), error))
}

fn is_in_transaction(conn: &mut PgConnection) -> Result<bool, DieselError> {
    let status =
        <PgConnection as Connection>::TransactionManager::transaction_manager_status_mut(conn);
    Ok(status.transaction_depth()?.is_some())
}
