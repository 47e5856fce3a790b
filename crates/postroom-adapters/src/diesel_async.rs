//! diesel-async on PostgreSQL.
//!
//! ```no_run
//! use diesel::sql_query;
//! use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
//! use postroom_adapters::{PgOutbox, diesel_async as adapter};
//! use postroom_core::Message;
//!
//! type Error = Box<dyn std::error::Error + Send + Sync>;
//!
//! async fn place(outbox: &PgOutbox, conn: &mut AsyncPgConnection) -> Result<(), Error> {
//!     conn.transaction::<_, Error, _>(async |conn| {
//!         sql_query("insert into orders values (7, 1250)").execute(conn).await?;
//!         let message = Message::builder("order.placed").payload(r#"{"order_id":7}"#);
//!         adapter::publish_in(outbox, conn, message).await?;
//!         Ok(())
//!     })
//!     .await?;
//!     adapter::wake(outbox, conn).await?;
//!     Ok(())
//! }
//! ```

use ::diesel::result::Error as DieselError;
use ::diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, TransactionManager};
use postroom_core::{IntoMessage, Result};

use crate::Enqueued;
use crate::diesel_common::{Answer, code, enqueue, not_in_transaction, notify};
use crate::postgres::{PgOutbox, enqueued, not_woken, refused};

/// Publishes inside [`conn.transaction(...)`](AsyncConnection::transaction), nested or not.
///
/// # Errors
/// `NotInTransaction` when diesel knows of no open transaction, also when you sent `BEGIN` behind
/// its back; `Invalid` or `Codec` for a bad message. In these cases nothing was sent and your
/// transaction stays usable. After any error of the database PostgreSQL lets a transaction only
/// roll back: `IdTaken` when the id belongs to another message, `Contention` when the transaction
/// should be run again. diesel does not tell most other errors apart: they are `Database`, with
/// diesel's own error as the source.
pub async fn publish_in(
    outbox: &PgOutbox,
    conn: &mut AsyncPgConnection,
    message: impl IntoMessage,
) -> Result<Enqueued> {
    let message = outbox.check(message)?;
    let refused = |error: DieselError| refused(&message, code(&error), error);
    if !is_in_transaction(conn).map_err(refused)? {
        return Err(not_in_transaction());
    }
    let parameters = outbox.parameters(&message);
    let answer: Answer = enqueue(outbox, &parameters).get_result(conn).await.map_err(refused)?;
    enqueued(&message, &answer.id)
}

/// Wakes the dispatchers of all processes. Call it after the commit and not in the transaction;
/// forgetting it costs latency only, and after a rollback it is harmless.
///
/// # Errors
/// As the database says. The message is committed all the same.
pub async fn wake(outbox: &PgOutbox, conn: &mut AsyncPgConnection) -> Result<()> {
    let woken = notify(outbox).execute(conn).await;
    woken.map(drop).map_err(|error| not_woken(code(&error), error))
}

fn is_in_transaction(conn: &mut AsyncPgConnection) -> Result<bool, DieselError> {
    type Manager = <AsyncPgConnection as AsyncConnection>::TransactionManager;
    Ok(Manager::transaction_manager_status_mut(conn).transaction_depth()?.is_some())
}
