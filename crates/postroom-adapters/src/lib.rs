//! Publish into a Postroom outbox from the transaction of another data layer.
//!
//! `postroom` itself speaks sqlx. A service that uses something else keeps its own transaction and
//! publishes in it through one of these:
//!
//! | layer | feature and module | what `publish_in` takes |
//! |---|---|---|
//! | tokio-postgres, deadpool-postgres | `tokio-postgres` | `&Transaction` |
//! | diesel | `diesel` | `&mut PgConnection` in a transaction |
//! | diesel-async | `diesel-async` | `&mut AsyncPgConnection` in a transaction |
//! | sea-orm 2, on PostgreSQL | `sea-orm` | `&DatabaseTransaction` |
//! | rusqlite | `rusqlite` | `&Transaction` or `&Savepoint` |
//!
//! All do the same:
//! - The message is checked and encoded before anything is sent, with the limits of an
//!   [`Outbox`](postroom_core::Outbox). A broken limit is the error `Invalid`, and your transaction
//!   stays usable.
//! - It commits or rolls back with your rows. Nothing here commits, and nothing publishes outside a
//!   transaction: that does not compile, or it is the error `NotInTransaction`.
//! - A second message with the same idempotency key is a success that writes nothing: see
//!   [`Enqueued`].
//! - It is delivered like any other. A dispatcher finds it with its next poll, or at once when you
//!   call `wake` after the commit.
//!
//! On PostgreSQL they call the SQL function `outbox_enqueue` and touch nothing else, so a role that
//! may only execute that function can publish.
//!
#![cfg_attr(feature = "tokio-postgres", doc = "```no_run")]
#![cfg_attr(not(feature = "tokio-postgres"), doc = "```text")]
//! use postroom_adapters::{PgOutbox, StoreConfig, tokio_postgres as adapter};
//! use postroom_core::Message;
//!
//! # type Error = Box<dyn std::error::Error>;
//! # async fn place(client: &mut tokio_postgres::Client) -> Result<(), Error> {
//! let outbox = PgOutbox::new(&StoreConfig::default())?;
//!
//! let tx = client.transaction().await?;
//! tx.execute("insert into orders values (7, 1250)", &[]).await?;
//! let message = Message::builder("order.placed").payload(r#"{"order_id":7}"#);
//! adapter::publish_in(&outbox, &tx, message).await?;
//! tx.commit().await?;
//! adapter::wake(&outbox, client).await?;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(
    not(any(feature = "_postgres", feature = "rusqlite")),
    allow(dead_code, unused_imports, reason = "without a layer there is nothing to do")
)]

#[cfg(feature = "diesel")]
pub mod diesel;
#[cfg(feature = "diesel-async")]
pub mod diesel_async;
#[cfg(any(feature = "diesel", feature = "diesel-async"))]
mod diesel_common;
#[cfg(feature = "_postgres")]
mod postgres;
#[cfg(feature = "rusqlite")]
pub mod rusqlite;
#[cfg(feature = "sea-orm")]
pub mod sea_orm;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;

#[cfg(feature = "_postgres")]
pub use postgres::PgOutbox;
#[cfg(feature = "rusqlite")]
pub use rusqlite::SqliteOutbox;

pub use postroom_core::OutboxConfig;
pub use postroom_stores::StoreConfig;

use postroom_core::{Error, ErrorKind, IntoMessage, Message, MessageId, Result};
use postroom_stores::Queue;

/// What became of a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The id of the message that is in the store: this one's, or the first one's of a duplicate.
    pub id: MessageId,
    /// Whether a message with this idempotency key was there first.
    ///
    /// Publishing the very same [`Message`] again, with its id, is a success too. PostgreSQL does
    /// not tell it from the first time, and this is `false` then.
    pub already_existed: bool,
}

/// The message as an outbox with these settings would write it.
fn check_message(config: &OutboxConfig, message: impl IntoMessage) -> Result<Message> {
    let message = config.check(message)?;
    if message.origin().is_some() {
        let problem = "a received message can not be published as it is; build a new one from it";
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    Ok(message)
}

fn require_outbox(store: &StoreConfig) -> Result<()> {
    match store.queue {
        Queue::Outbox => Ok(()),
        Queue::Inbox => Err(Error::new(
            ErrorKind::Invalid,
            "queue must be the outbox: an inbox receives, and nobody publishes into it",
        )),
    }
}
