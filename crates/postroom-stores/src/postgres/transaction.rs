//! Transactions of the application.

use postroom_core::store::StoreTransaction;
use postroom_core::{Error, ErrorKind, Result};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Postgres, Transaction};

use super::classify::{classify, classify_commit, is_no_transaction};
use crate::budget::Place;
use crate::cancel::Leaked;

/// A transaction of sqlx, as [`Outbox::adopt`](postroom_core::Outbox::adopt) takes it.
#[derive(Debug)]
pub struct PgTx<'c> {
    tx: Transaction<'c, Postgres>,
    nested: bool,
    _place: Place,
}

impl<'c> PgTx<'c> {
    /// On a connection for which there is a place.
    pub(super) fn within(tx: Transaction<'c, Postgres>, place: Place) -> Self {
        Self { tx, nested: false, _place: place }
    }
}

impl<'c> From<Transaction<'c, Postgres>> for PgTx<'c> {
    fn from(tx: Transaction<'c, Postgres>) -> Self {
        Self::within(tx, Place::default())
    }
}

impl StoreTransaction for PgTx<'_> {
    type Conn = PgConnection;
    type Nested<'a>
        = PgTx<'a>
    where
        Self: 'a;

    fn conn(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    async fn check_open(&mut self, writes_follow: bool) -> Result<()> {
        // The driver rolls back in secret when it is interrupted at the wrong moment.
        if !self.tx.is_in_transaction() {
            return Err(Error::new(ErrorKind::RolledBack, "the driver ended the transaction"));
        }
        // An aborted transaction refuses the write that follows just as well (B05).
        if writes_follow {
            return Ok(());
        }
        match self.tx.execute(sqlx::raw_sql("select 1")).await {
            Ok(_) => Ok(()),
            Err(error) => Err(classify("commit", error)),
        }
    }

    async fn savepoint(&mut self) -> Result<PgTx<'_>> {
        let begun = Leaked::new(self.tx.begin());
        let tx = begun.await.map_err(|error| classify("savepoint", error))?;
        Ok(PgTx { tx, nested: true, _place: Place::default() })
    }

    async fn commit(self) -> Result<()> {
        self.tx.commit().await.map_err(|error| match self.nested {
            true => classify("release savepoint", error),
            false => classify_commit(error),
        })
    }

    async fn rollback(self) -> Result<()> {
        self.tx.rollback().await.map_err(|error| classify("rollback", error))
    }
}

/// Fails with `NotInTransaction` outside a transaction: SAVEPOINT is refused there, and leaves no
/// trace otherwise. One round trip.
pub(crate) async fn require_transaction(conn: &mut PgConnection) -> Result<()> {
    let probe = "savepoint postroom_probe; release savepoint postroom_probe";
    match conn.execute(sqlx::raw_sql(probe)).await {
        Ok(_) => Ok(()),
        Err(error) if is_no_transaction(&error) => Err(Error::new(
            ErrorKind::NotInTransaction,
            "the connection has no open transaction; begin one, so that the message commits with \
             your change",
        )
        .with_source(error)),
        Err(error) => Err(classify("publish", error)),
    }
}
