//! Transactions of the application, guarded by a savepoint.
//!
//! A deadlock makes the server roll back a whole transaction, and the next statement then commits
//! by itself (B07). A savepoint taken at the beginning is gone in that case: releasing it before
//! anything of ours is written tells the truth.

use postroom_core::store::StoreTransaction;
use postroom_core::{Error, ErrorKind, Result};
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor, MySql, Transaction};

use super::classify::{classify, classify_commit, is_no_savepoint};
use crate::budget::Place;
use crate::cancel::Leaked;

/// A transaction of sqlx, as [`Outbox::adopt`](postroom_core::Outbox::adopt) takes it; also a
/// savepoint within one.
#[derive(Debug)]
pub struct MySqlTx<'c> {
    tx: Transaction<'c, MySql>,
    nested: bool,
    _place: Place,
}

/// How a guarded transaction begins, in one round trip.
pub(super) const BEGIN: &str = "start transaction; savepoint postroom_guard";

/// Fails outside a transaction, where SAVEPOINT leaves nothing behind. One round trip.
const PROBE: &str = "savepoint postroom_probe; release savepoint postroom_probe";

impl<'c> MySqlTx<'c> {
    /// Takes over a transaction that you began.
    ///
    /// # Errors
    /// As the database says; the transaction is then rolled back.
    pub async fn adopt(mut tx: Transaction<'c, MySql>) -> Result<Self> {
        let guard = tx.execute(sqlx::raw_sql("savepoint postroom_guard")).await;
        guard.map_err(|error| classify("begin", error))?;
        Ok(Self::guarded(tx, Place::default()))
    }

    /// One that began with the guard, on a connection for which there is a place.
    pub(super) fn guarded(tx: Transaction<'c, MySql>, place: Place) -> Self {
        Self { tx, nested: false, _place: place }
    }
}

impl StoreTransaction for MySqlTx<'_> {
    type Conn = MySqlConnection;
    type Nested<'a>
        = MySqlTx<'a>
    where
        Self: 'a;

    fn conn(&mut self) -> &mut MySqlConnection {
        &mut self.tx
    }

    async fn check_open(&mut self, _writes_follow: bool) -> Result<()> {
        // The driver rolls back in secret when it is interrupted at the wrong moment.
        if !self.tx.is_in_transaction() {
            return Err(Error::new(ErrorKind::RolledBack, "the driver ended the transaction"));
        }
        let renew = match self.nested {
            // A second savepoint of a name would replace the outer guard.
            true => PROBE,
            false => "release savepoint postroom_guard; savepoint postroom_guard",
        };
        match self.tx.execute(sqlx::raw_sql(renew)).await {
            Ok(_) => Ok(()),
            Err(error) if is_no_savepoint(&error) => Err(already_ended(error)),
            Err(error) => Err(classify("commit", error)),
        }
    }

    async fn savepoint(&mut self) -> Result<MySqlTx<'_>> {
        let begun = Leaked::new(self.tx.begin());
        let tx = begun.await.map_err(|error| classify("savepoint", error))?;
        Ok(MySqlTx { tx, nested: true, _place: Place::default() })
    }

    async fn commit(self) -> Result<()> {
        self.tx.commit().await.map_err(|error| match self.nested {
            true if is_no_savepoint(&error) => already_ended(error),
            true => classify("release savepoint", error),
            false => classify_commit(error),
        })
    }

    async fn rollback(self) -> Result<()> {
        self.tx.rollback().await.map_err(|error| match self.nested {
            true if is_no_savepoint(&error) => already_ended(error),
            _ => classify("rollback", error),
        })
    }
}

fn already_ended(error: sqlx::Error) -> Error {
    let problem = "the database has rolled the transaction back, after a deadlock for example";
    Error::new(ErrorKind::RolledBack, problem).transient(true).with_source(error)
}

/// Fails with `NotInTransaction` outside a transaction.
pub(super) async fn require_transaction(conn: &mut MySqlConnection) -> Result<()> {
    match conn.execute(sqlx::raw_sql(PROBE)).await {
        Ok(_) => Ok(()),
        Err(error) if is_no_savepoint(&error) => Err(Error::new(
            ErrorKind::NotInTransaction,
            "the connection has no open transaction; begin one, so that the message commits with \
             your change",
        )
        .with_source(error)),
        Err(error) => Err(classify("publish", error)),
    }
}
