//! Transactions of the application.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use postroom_core::store::StoreTransaction;
use postroom_core::{Error, ErrorKind, Result};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Postgres, Transaction};

use super::classify::{classify, classify_commit, is_no_transaction};

/// A transaction of sqlx, as [`Outbox::adopt`](postroom_core::Outbox::adopt) takes it.
#[derive(Debug)]
pub struct PgTx<'c> {
    tx: Transaction<'c, Postgres>,
    nested: bool,
}

impl<'c> From<Transaction<'c, Postgres>> for PgTx<'c> {
    fn from(tx: Transaction<'c, Postgres>) -> Self {
        Self { tx, nested: false }
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
        let begun = Leaked(Some(Box::pin(self.tx.begin())));
        let tx = begun.await.map_err(|error| classify("savepoint", error))?;
        Ok(PgTx { tx, nested: true })
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

/// A future that is forgotten when it is cancelled.
///
/// Dropping sqlx's half-done SAVEPOINT rolls back the whole transaction behind our back, and the
/// caller's next statements would run outside any. Forgotten, the savepoint is simply there,
/// unused, until the transaction ends.
struct Leaked<F>(Option<Pin<Box<F>>>);

impl<F: Future> Future for Leaked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.0.as_mut().expect("not polled again after it was ready");
        let output = std::task::ready!(future.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(output)
    }
}

impl<F> Drop for Leaked<F> {
    fn drop(&mut self) {
        if let Some(future) = self.0.take() {
            std::mem::forget(future);
        }
    }
}
